"""Secure aggregation: equality with plain sums, what it costs, and whether honest studies are refused.

Usage: ``python -m benchmarks.federated_masks [--parts cost,honest]``

- cost: the README's people (task basic, seed 0, 492 + 900) in four sites, ten members, effects of sites left as they
  are, without and with masks in turns; processor seconds of the sums of one site, and of the calculation from totals,
  which the centre makes and each site repeats. Without masks, sums over fewer than ten people are allowed here: else
  these sites, of which a fold would have fewer than ten controls of a sex, would have other folds.
- honest: 50 studies (seeds 1000 to 1049) of 2 to 8 sites with 60 to 1,000 people each, 12 regions, effects of sites
  removed, under masks from three sites: the mean difference of ten members in all of them, which takes all rounds up to
  the moments, and two curved patterns of two members, which take all kinds of rounds, in the first eight.

Writes ``results/federated_masks.json`` and ``.md``; parts in the JSON are not run again, delete them there to repeat
them.
"""

import argparse
import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import rindices as ri
from rindices.atomic import write_atomically
from rindices.errors import RindicesError
from rindices.experiments.tasks import TASKS
from rindices.federated.fit import FederatedResult, FederatedSettings, run_federated_study
from rindices.federated.masks import SiteKey, compute_fingerprint
from rindices.federated.messages import Answer, RefusedError, Request, receive_answer
from rindices.federated.secure import FEWEST_SITES
from rindices.federated.site import Site
from rindices.study.config import ModelConfig
from rindices.tables.cohort import Cohort

RESULTS = Path(__file__).parent / "results" / "federated_masks.json"
SEEDS, N_REGIONS = range(1000, 1050), 12
MODELS = {
    "mean difference": (ModelConfig(method="mean-difference", members=10), SEEDS),
    "two curved patterns": (ModelConfig(patterns=(2,), members=2, method_settings={"shape": "curved"}), SEEDS[:8]),
}


@dataclass
class TimedTransport:
    """Sites in memory, with the processor seconds that they take."""

    sites: list[Site]
    seconds: float = field(default=0.0, init=False)

    def ask(self, request: Request) -> dict[str, Answer]:
        sent = Request.decode(request.encode())
        start = time.process_time()
        contents = {site.name: site.answer(sent).encode() for site in self.sites}
        self.seconds += time.process_time() - start
        return {name: receive_answer(content, name, request) for name, content in contents.items()}


def make_sites(cohorts: list[Cohort], masked: bool, fewest: int = 10) -> list[Site]:
    names = [f"site-{k}" for k in range(len(cohorts))]
    keys = [SiteKey(X25519PrivateKey.generate()) for _ in names]
    prints = {compute_fingerprint(name, key.public) for name, key in zip(names, keys, strict=True)}
    own = [
        replace(key, accepted=frozenset(prints - {compute_fingerprint(name, key.public)}))
        for name, key in zip(names, keys, strict=True)
    ]
    return [
        Site(name, cohort, fewest, key=own[k] if masked else None)
        for k, (name, cohort) in enumerate(zip(names, cohorts, strict=True))
    ]


def run(cohorts: list[Cohort], settings: FederatedSettings, fewest: int = 10) -> tuple[FederatedResult, float, float]:
    """Return the result, and the processor seconds of one site and of the calculation."""
    transport, start = TimedTransport(make_sites(cohorts, settings.masked, fewest)), time.process_time()
    result = run_federated_study(transport, settings)
    return result, transport.seconds / len(cohorts), time.process_time() - start - transport.seconds


def measure_cost() -> dict[str, Any]:
    cohort = ri.simulate_cohort("basic", seed=0).cohort
    labels = np.random.default_rng(0).integers(4, size=len(cohort))
    cohorts, values, models = [cohort.take(labels == k) for k in range(4)], {}, []
    for masked in (False, True):
        settings = FederatedSettings(ModelConfig(members=10), masked=masked)
        result, site_seconds, seconds = run(cohorts, settings, 10 if masked else 1)
        assert result.model is not None
        models.append(result.model)
        values["with masks" if masked else "without"] = {
            "rounds": len(result.rounds),
            "MB sent by a site": result.sent / 1e6,
            "MB received by a site": result.received / 1e6,
            "processor seconds of the sums of a site": site_seconds,
            "processor seconds of the calculation": seconds,
        }
    indices = [model.apply(cohort)[model.index_names].to_numpy() for model in models]
    return {
        "largest difference of patterns": float(np.abs(models[0].patterns - models[1].patterns).max()),
        "largest difference of R-indices": float(np.abs(indices[0] - indices[1]).max()),
        **values,
    }


def draw_sites(seed: int) -> list[Cohort]:
    """Return the people of 2 to 8 sites with 60 to 1,000 people."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.uniform(np.log(60), np.log(1000), size=rng.integers(2, 9))).astype(int)
    n_controls = int(rng.uniform(0.4, 0.6) * sizes.sum())
    task = replace(TASKS["small"], n_controls=n_controls, n_patients=int(sizes.sum()) - n_controls)
    cohort = ri.simulate_cohort(task, seed=seed).cohort
    names = [name for pattern in task.patterns for name in pattern[: N_REGIONS // len(task.patterns)]]
    cohort = replace(cohort, volumes=cohort.volumes[[name for name in cohort.volumes if name in names]])
    return [cohort.take(rows) for rows in np.split(rng.permutation(len(cohort)), np.cumsum(sizes)[:-1])]


def measure_honest() -> dict[str, Any]:
    results = {}
    for name, (model, seeds) in MODELS.items():
        refused, other, masked = [], [], 0
        for seed in seeds:
            cohorts = draw_sites(seed)
            is_masked = len(cohorts) >= FEWEST_SITES
            masked += is_masked
            try:
                run(cohorts, FederatedSettings(model, seed, harmonise=True, masked=is_masked))
            except RefusedError as error:
                refused.append(f"{seed}: {error}")
            except RindicesError as error:
                other.append(f"{seed}: {error}")
            print(seed, [len(each) for each in cohorts], refused[-1:], other[-1:], flush=True)
        results[name] = {"studies": len(seeds), "under masks": masked, "refused": refused, "ended otherwise": other}
    return results


def write_page(results: dict[str, Any]) -> None:
    lines = ["# Secure aggregation", "", "Written by `python -m benchmarks.federated_masks`.", ""]
    if "cost" in results:
        cost = results["cost"]
        lines += [
            "The README's people (492 + 900) in four sites, ten members, 139 regions; processor seconds are noisy.",
            "",
            "| | without masks | with masks |",
            "|---|---|---|",
            *(f"| {name} | {value:.4g} | {cost['with masks'][name]:.4g} |" for name, value in cost["without"].items()),
            "",
            f"Largest difference of patterns {cost['largest difference of patterns']:.1e}, of R-indices "
            f"{cost['largest difference of R-indices']:.1e}. The calculation is made by the centre, and under masks by "
            "each site, too.",
            "",
        ]
    if "honest" in results:
        lines += [
            "Honest studies of 2 to 8 sites with 60 to 1,000 people each, 12 regions, effects of sites removed:",
            "",
        ]
        lines += ["| model | studies | under masks | refused by a site | ended otherwise |", "|---|---|---|---|---|"]
        for name, each in results["honest"].items():
            numbers = (each["studies"], each["under masks"], len(each["refused"]), len(each["ended otherwise"]))
            lines.append(f"| {name} | {' | '.join(map(str, numbers))} |")
        lines += [
            "",
            *(text for each in results["honest"].values() for text in each["refused"] + each["ended otherwise"]),
        ]
    write_atomically(RESULTS.with_suffix(".md"), ("\n".join(lines).rstrip() + "\n").encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="cost,honest")
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for part in parser.parse_args().parts.split(","):
        if part not in results:
            results[part] = {"cost": measure_cost, "honest": measure_honest}[part]()
            write_atomically(RESULTS, (json.dumps(results, indent=2) + "\n").encode())
    write_page(results)


if __name__ == "__main__":
    main()
