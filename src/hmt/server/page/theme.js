// Before the first paint, so that nothing flashes.
try {
	const theme = localStorage.getItem("hmt.theme");
	if (theme) document.documentElement.dataset.theme = theme;
} catch { /* storage is forbidden */ }
