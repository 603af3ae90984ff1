// Before the first paint: the colours chosen last time. Not a module, so that nothing flashes.
try {
	const theme = localStorage.getItem("hmt.theme");
	if (theme) document.documentElement.dataset.theme = theme;
} catch { /* storage is forbidden: the system's colours then */ }
