#!/usr/bin/python3
"""Draws docs/kbuild.svg, the README's picture, from what daxsim says of the kernel build.

  build/release/bin/daxsim --window 64M..16G --policy linux,lru,arc,belady --trace kbuild.trace --format json -o sweep.json
  docs/picture.py sweep.json docs/kbuild.svg

Needs python3-matplotlib.
"""
import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "daxcache"  # the same input gives the same bytes
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)

COLOURS = {"linux": "#d55e00", "fifo": "#999999", "lru": "#0072b2", "arc": "#009e73", "belady": "#000000"}
LABELS = {"linux": "linux (what guests do today)", "belady": "belady (the best possible)"}


def main(source, target):
    with open(source, encoding="utf-8") as file:
        runs = json.load(file)["runs"]
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for policy in dict.fromkeys(run["policy"] for run in runs):
        points = [(run["window_bytes"] / 2**20, 100 * run["miss_ratio"]) for run in runs if run["policy"] == policy]
        axes.plot(*zip(*points), marker="o", markersize=3.5, label=LABELS.get(policy, policy),
                  color=COLOURS.get(policy), linestyle="--" if policy == "belady" else "-")
    sizes = sorted({run["window_bytes"] / 2**20 for run in runs})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size / 1024:g}G" if size >= 1024 else f"{size:g}M" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("DAX window")
    axes.set_ylabel("misses, % of range touches")
    axes.set_ylim(0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    cost = {run["window_bytes"] / 2**20: run["guest_bytes"] / 2**20 for run in runs}
    above = axes.secondary_xaxis("top")
    above.set_xticks(sizes, [f"{cost[size]:.0f}" for size in sizes])
    above.minorticks_off()
    above.set_xlabel("guest memory it takes, MiB")
    figure.savefig(target, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
