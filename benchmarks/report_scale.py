"""Size and speed of reports with many people, in a headless Chromium.

    python -m benchmarks.report_scale [--people 50000] [--patterns 3 5]

Fits a study, replaces its people by simulated ones, writes the report that may be passed on and the one with ids, and
measures in the browser: the time from the start of loading to the first paint and until all controls work, and the
time of an input (a click on a dot, a drag over dots, a search by id, a slider, another colour) until the next frame.
Loading is the fastest of five, in wall-clock time. Inputs are medians of five, in processor time of the page's thread,
which does not depend on what else the machine does, and in wall-clock time. No request may leave the page. Writes
``results/report_scale.json`` and ``.md``; numbers of patterns that are already there are not measured again.
"""

import argparse
import json
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.chromium import Browser, Tab

import rindices as ri
from rindices.experiments.tasks import make_task_with_patterns
from rindices.study.outputs import write_study

HERE = Path(__file__).parent

OUT = HERE / "results" / "report_scale.json"
REPEATS = 5
READY = "document.getElementById('person') && document.getElementById('person').children.length"
NEXT_FRAME = "await new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
ACTIONS = {
    "click": """const box = overlay.getBoundingClientRect();
        const place = {clientX: box.left + box.width * (0.3 + 0.05 * k), clientY: box.top + box.height * 0.5};
        for (const kind of ["pointerdown", "pointerup"])
            overlay.dispatchEvent(new PointerEvent(kind, {...place, button: 0, bubbles: true}));""",
    "drag": """const box = overlay.getBoundingClientRect();
        const at = (x) => ({clientX: box.left + box.width * x, clientY: box.top + box.height * x, button: 0});
        overlay.dispatchEvent(new PointerEvent("pointerdown", at(0.2)));
        overlay.dispatchEvent(new PointerEvent("pointermove", at(0.5)));
        overlay.dispatchEvent(new PointerEvent("pointerup", at(0.5 + 0.05 * k)));""",
    "slider": """const slider = document.querySelector("#sliders input");
        slider.value = 0.2 * k; slider.dispatchEvent(new Event("input"));""",
    "colour": """const colour = document.getElementById("colour-by");
        colour.selectedIndex = 1 + k % 2; colour.dispatchEvent(new Event("change"));""",
}
SEARCH = """const field = document.getElementById("person-search");
    field.value = "9" + k; field.dispatchEvent(new Event("input"));
    field.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));"""


def write_reports(folder: Path, people: int, patterns: int) -> dict[str, Path]:
    """Write both reports of a study with many people; a study that is already there is used again."""
    if (folder / "model.safetensors").is_file():
        return {"passed on": ri.write_report(folder), "with ids": ri.write_report(folder, with_ids=True)}
    task = make_task_with_patterns(patterns)
    model = ri.fit(ri.simulate_cohort(task, seed=0).cohort, patterns, members=3, workers=1, out=folder, with_ids=True)
    many = replace(task, n_controls=people * 2 // 5, n_patients=people - people * 2 // 5)
    write_study(folder, model, ri.simulate_cohort(many, seed=1).cohort, [], with_ids=True)
    return {"passed on": ri.write_report(folder), "with ids": ri.write_report(folder, with_ids=True)}


def read_processor_time(tab: Tab) -> float:
    """Return the processor time of the page's main thread so far, in milliseconds."""
    metrics = {entry["name"]: entry["value"] for entry in tab.call("Performance.getMetrics")["metrics"]}
    return 1000 * metrics["TaskDuration"]


def measure_action(tab: Tab, action: str) -> dict[str, float]:
    """Return the median time in milliseconds of an input until the next frame."""
    wall, processor = [], []
    for k in range(REPEATS):
        tab.run(f"(async () => {{ document.getElementById('scatter-overlay').scrollIntoView(); {NEXT_FRAME}; }})()")
        before = read_processor_time(tab)
        wall.append(
            tab.run(
                f"(async () => {{ const k = {k}; const overlay = document.getElementById('scatter-overlay'); "
                f"const start = performance.now(); {action}; {NEXT_FRAME}; return performance.now() - start; }})()"
            )
        )
        processor.append(read_processor_time(tab) - before)
    return {"processor": statistics.median(processor), "wall": statistics.median(wall)}


def measure_page(path: Path, has_ids: bool) -> dict[str, Any]:
    """Return size and times of a page."""
    paints, ready = [], []
    for _ in range(REPEATS):
        with Browser() as browser:
            tab = browser.open(path, ready=READY)
            ready.append(tab.run("performance.now()"))
            paints.append(tab.run("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            if len(ready) < REPEATS:
                continue
            tab.call("Performance.enable", timeDomain="threadTicks")
            actions = ACTIONS | ({"search": SEARCH} if has_ids else {})
            times = {name: measure_action(tab, action) for name, action in actions.items()}
            leaving = [url for url in tab.list_requests() if url != path.absolute().as_uri()]
            errors = tab.list_errors()
    return {
        "megabytes": path.stat().st_size / 1e6,
        "first_paint_ms": min(paints),
        "ready_ms": min(ready),
        "action_ms": times,
        "requests": leaving,
        "errors": errors,
    }


def format_table(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    columns = ["click", "drag", "search", "slider", "colour"]
    lines = [
        "# Reports with many people",
        "Times in milliseconds, in a headless Chromium. First paint and ready (all controls work): wall-clock time "
        "from the start of loading, fastest of five. Inputs: processor time of the page until the next frame, "
        "median of five; in brackets the wall-clock time.",
        "",
        f"| people | patterns | page | MB | first paint | ready | {' | '.join(columns)} | requests |",
        f"|{'---|' * (7 + len(columns))}",
    ]
    for entry in results.values():
        for name, page in entry["pages"].items():
            times = [format_times(page["action_ms"].get(column)) for column in columns]
            sizes = f"{page['megabytes']:.1f} | {page['first_paint_ms']:.0f} | {page['ready_ms']:.0f}"
            row = f"{entry['people']:,} | {entry['patterns']} | {name} | {sizes} | {' | '.join(times)}"
            lines.append(f"| {row} | {len(page['requests'])} |")
    return "\n".join([*lines, "", "Written by `python -m benchmarks.report_scale`.", ""])


def format_times(times: dict[str, float] | None) -> str:
    return "" if times is None else f"{times['processor']:.0f} ({times['wall']:.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=50_000)
    parser.add_argument("--patterns", type=int, nargs="+", default=[3, 5])
    parser.add_argument("--folder", type=Path, help="keep the studies there")
    options = parser.parse_args()
    results = json.loads(OUT.read_text()) if OUT.is_file() else {}
    for patterns in options.patterns:
        key = f"{options.people}-{patterns}"
        if key in results:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            pages = write_reports((options.folder or Path(temporary)) / key, options.people, patterns)
            measured = {name: measure_page(path, name == "with ids") for name, path in pages.items()}
        results[key] = {"people": options.people, "patterns": patterns, "pages": measured}
        OUT.write_text(json.dumps(results, indent=1) + "\n")
    OUT.with_suffix(".md").write_text(format_table(results))
    print(OUT.with_suffix(".md").read_text())


if __name__ == "__main__":
    main()
