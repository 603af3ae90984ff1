// Runs before the first paint, so that nothing flashes.
try {
	const { dataset, style } = document.documentElement;
	dataset.theme = localStorage.getItem("hmt.theme") ?? "auto";
	style.setProperty("--scale", localStorage.getItem("hmt.size") ?? 1);
} catch { /* storage is forbidden */ }
