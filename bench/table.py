"""Formats results as the table in bench/README.md."""

import json

BEGIN, END = "<!-- table: begin (bench/run.py) -->", "<!-- table: end -->"


def number(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def verdict(row):
    if "at_most" in row:
        return "reached" if row["lockstep"] <= row["at_most"] else "**not reached**"
    if "goal" not in row:
        return ""
    reached = row["ratio"] >= row["goal"] if row.get("higher_is_better", True) else row["ratio"] <= row["goal"]
    return "reached" if reached else "**not reached**"


def goal(row):
    if "at_most" in row:
        return f"≤ {row['at_most']:g} {row['unit']}"
    if "goal" not in row:
        return ""
    return ("≥ " if row.get("higher_is_better", True) else "≤ ") + f"{row['goal']}×"


def line(row):
    spread = row["lockstep_spread"]
    return (f"| {row['row']} | {number(row['lockstep'])} ({number(spread[0])}–{number(spread[1])}) {row['unit']} "
            f"| {row['peer_name']}: {number(row['peer'])} {row['unit']} | {row['ratio']:.2f}× | {goal(row)} {verdict(row)} "
            f"| {row.get('limit', '')} |")


def merged(path, result):
    """Merges results: groups that were not measured keep their previous rows, with the information of their run."""
    facts = {name: value for name, value in result.items() if name != "rows"}
    rows = {row["row"]: {**row, "run": facts} for row in result["rows"]}
    kept = json.loads(path.read_text())["rows"] if path.exists() else []
    return {"rows": [row for row in kept if row["row"] not in rows] + list(rows.values())}


def renew(readme, result):
    head = "| row | Lockstep, median (least–most) | peer, median | ratio | goal | limit |\n|---|---|---|---|---|---|"
    runs = sorted({(row["run"]["date"], row["run"]["commit"][:10], row["run"]["rounds"],
                    row["others_busy_before"]) for row in result["rows"]})
    notes = [f"{date}, commit {commit}, {rounds} rounds, {busy} % load by other processes before"
             for date, commit, rounds, busy in runs]
    machine = result["rows"][0]["run"]["machine"]
    body = "\n".join([BEGIN, head, *map(line, result["rows"]), "", f"{machine['cores']} cores of {machine['cpu']}. "
                      + "; ".join(notes) + ".", END])
    text = readme.read_text()
    before, rest = text.split(BEGIN)
    readme.write_text(before + body + rest.split(END)[1])
