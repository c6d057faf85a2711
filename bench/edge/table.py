#!/usr/bin/env python3
"""Merges workloads of published models by every method, with the same frames and the same processor time, and prints what each saves.

    python3 table.py CULM ../shared/data/edge FOLDER [--workload nano,face] [--method culm,gemel-fixed] [--table]

FOLDER gets the workloads (workloads.py) and a package for each method, WORKLOAD-METHOD; of methods that have a learning rate, one for each
rate. A package that is whole is kept, so the same command goes on where it was stopped; remove its folder to measure it again. A workload
that workloads.py does not know is FOLDER/NAME.yaml, if it is there (examples/edge/specialised.py writes one). `--table` merges nothing and
prints what there is.

The numbers are those of events.jsonl, seconds are a processor's. What was `shipped`, and how much of it `untrained`, before the first step of
training, is by the frames that are checked; what is `saved` in the end is without the models that miss their target on unseen frames. `kept` is the least and the most
that a query keeps of its original's accuracy: on the frames that merging has not seen, and `elsewhere`, on other clips for detectors and on
JPEG pictures for CIFAR-10, of the queries of which merging changed anything.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
METHODS = ["culm", "gemel", "gemel-fixed", "stem", "max", "none"]
RATES = {"gemel": ["1e-5"], "gemel-fixed": ["1e-4", "1e-3", "1e-2"]}  # GEMEL's own, and three to choose the best of
WORKLOADS = {  # frames of each feed that are fitted to; minutes of a processor after which nothing is begun; steps, at most
    "face": (200, 2, 2000), "nano": (200, 4, 2000), "fastest": (200, 4, 2000), "xl": (200, 10, 2000), "cifar": (400, 4, 2000),
    "specialised": (400, 4, 2000), "corridor": (200, 6, 2000), "everything": (200, 25, 2000),
}
OTHER = (200, 4, 2000)  # of workloads of one's own
ELSEWHERE = ["clips/store-aisle-detection.gif", "clips/classroom.gif", "clips/person-bicycle-car-detection.gif"]
JPEGS, JPEGS_EACH = "images/cifar10-jpeg-test.tar.gz", 100  # of each class


def events(package):
    try:
        with open(os.path.join(package, "events.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file.read().split("\n")[:-1]]
    except FileNotFoundError:
        return []


def done(package):
    return next((event for event in events(package) if event["event"] == "done"), None)


def merge(args, workload, method, rate):
    package = package_of(args, workload, method, rate)
    if done(package):
        return
    shutil.rmtree(package, ignore_errors=True)
    frames, minutes, steps = WORKLOADS.get(workload, OTHER)
    sets = {"method": method, "frames": frames, "cpu_minutes": args.minutes or minutes, "steps": steps, "threads": 1, **({"lr": rate} if rate else {})}
    words = [word for key, value in sets.items() for word in ("--set", f"merge.{key}={value}")]
    ended = subprocess.run([*args.before.split(), args.culm, "merge", os.path.join(args.folder, f"{workload}.yaml"), *words, "--out", package, "--json"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    print(f"{os.path.basename(package)}: {'merged' if ended.returncode == 0 else f'exit code {ended.returncode}'} {ended.stderr.strip()}", file=sys.stderr, flush=True)


def package_of(args, workload, method, rate):
    return os.path.join(args.folder, "-".join(filter(None, [workload, method, rate])))


# --- elsewhere ---

def answers(args, model, files):
    told = subprocess.run([args.culm, "predict", model, *files, "--threads", "1", "--top", "1", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in told.stdout.splitlines()]


def overlap(a, b):
    across = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
    down = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
    both = max(across, 0) * max(down, 0)
    return both / (a["width"] * a["height"] + b["width"] * b["height"] - both) if both else 0


def precision(told, wanted):
    """Average precision at an overlap of 0.5, of all boxes at once, as `culm merge` counts it; None: nothing was wanted."""
    hits, count = [], sum(len(frame["boxes"]) for frame in wanted)
    for frame, right in zip(told, wanted):
        free = list(right["boxes"])
        for box in sorted(frame["boxes"], key=lambda box: -box["score"]):
            best = max((other for other in free if other["class"] == box["class"]), key=lambda other: overlap(box, other), default=None)
            good = best is not None and overlap(box, best) >= 0.5
            if good:
                free.remove(best)
            hits.append((box["score"], good))
    hits.sort(key=lambda hit: -hit[0])
    area, best, right = 0.0, 0.0, sum(good for _, good in hits)
    for seen in range(len(hits), 0, -1):  # from the worst: the best precision at a recall or beyond
        best = max(best, right / seen)
        if hits[seen - 1][1]:
            area, right = area + best, right - 1
    return area / count if count else None


def right_classes(told):
    """The share of pictures whose class is the number of their folder; folders are in the order of their names."""
    folders = sorted({os.path.dirname(frame["file"]) for frame in told})
    return sum(frame["classes"][0]["class"] == folders.index(os.path.dirname(frame["file"])) for frame in told) / len(told)


def jpegs(args):
    """Folders of the first pictures of each class, unpacked."""
    folder, count = os.path.join(args.folder, "jpegs"), {}
    if not os.path.exists(folder):
        with tarfile.open(os.path.join(args.edge, JPEGS)) as tar:
            for member in tar:
                label, name = os.path.basename(os.path.dirname(member.name)), os.path.basename(member.name)
                if member.isfile() and count.setdefault(label, 0) < JPEGS_EACH:
                    count[label] += 1
                    os.makedirs(os.path.join(folder + ".part", label), exist_ok=True)
                    with open(os.path.join(folder + ".part", label, name), "wb") as file:
                        file.write(tar.extractfile(member).read())
        os.rename(folder + ".part", folder)
    return [os.path.join(folder, label) for label in sorted(os.listdir(folder))]


def elsewhere(args, workload, package):
    """Of each query of which merging changed anything: what is kept of the original's accuracy there. None where it was not measured."""
    kept = os.path.join(package, "elsewhere.json")
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            return json.load(file)
    if args.table or workload == "face" or workload not in WORKLOADS or workload == "specialised":  # of which there is no other clip
        return None
    with open(os.path.join(package, "current"), encoding="utf-8") as file:
        current = file.read().split()[0]
    with open(os.path.join(package, "rounds", f"{current}.json"), encoding="utf-8") as file:
        queries = json.load(file)["queries"]
    found = {}
    for query in queries:
        if all(tensor["tensor"] == tensor.get("original", tensor["tensor"]) for tensor in query["parameters"].values()) or query["query"].startswith("face-"):
            continue
        files = jpegs(args) if query["query"].startswith("cifar10-") else [os.path.join(args.edge, clip) for clip in ELSEWHERE]
        wanted, told = (answers(args, model, files) for model in (query["model"], f"{package}:{query['query']}"))
        if "boxes" in wanted[0]:
            found[query["query"]] = precision(told, wanted)
        else:
            found[query["query"]] = right_classes(told) / right_classes(wanted)
    with open(kept + ".part", "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.replace(kept + ".part", kept)
    return found


# --- the table ---

def percent(part, whole):
    return f"{100 * part / whole:.1f} %"


def span(values):
    values = [value for value in values if value is not None]
    return f"{min(values):.2f} to {max(values):.2f}" if values else ""


def trace(package):
    """What was saved when: [seconds of a processor, bytes], and how much of it before the first step of training."""
    saved, untrained, trained = [], 0, False
    for event in events(package):
        trained = trained or event["event"] == "step"
        if event["event"] == "merged" and event["saved_bytes"] > (saved[-1][1] if saved else 0):  # others save as much, and keep more
            saved.append((event["cpu_s"], event["saved_bytes"]))
            untrained = untrained if trained else event["saved_bytes"]
    return saved, untrained


def reached(package, least):
    """Seconds until that much was saved, of what the end says is saved; None: never."""
    end = done(package)
    if end["bytes"] - end["distinct_bytes"] < least:
        return None
    return next((seconds for seconds, saved in trace(package)[0] if saved >= least), None)


def row(args, workload, method, rate, package):
    end = done(package)
    saved, untrained = trace(package)
    kept = [query["merged"] / query["original"] for query in end["queries"] if query["original"] > 0]
    away = elsewhere(args, workload, package)
    steps = [f"{percent(bytes, end['bytes'])} at {seconds:.0f}" for seconds, bytes in saved]
    return (f"| {workload} | `{method}`{f', {rate}' if rate else ''} | {percent(end['bytes'] - end['distinct_bytes'], end['bytes'])} of {percent(end['possible_bytes'], end['bytes'])} "
            f"| {percent(untrained, end['bytes'])} | {', '.join(steps if len(steps) < 5 else steps[:1] + ['...'] + steps[-2:])} | {end['cpu_s']:.0f} "
            f"| {span(kept)} | {span(away.values()) if away else ''} |")


def sooner(args, workload):
    """How much sooner culm saved what each GEMEL saved in the end, by its best rate."""
    told = []
    for method in ("gemel", "gemel-fixed"):
        packages = [package for package in (package_of(args, workload, method, rate) for rate in RATES[method]) if done(package)]
        own = package_of(args, workload, "culm", None)
        if not packages or not done(own):
            continue
        best = max(packages, key=lambda package: (done(package)["bytes"] - done(package)["distinct_bytes"], -done(package)["cpu_s"]))
        saved = done(best)["bytes"] - done(best)["distinct_bytes"]
        when, then = reached(own, saved), reached(best, saved)
        share = percent(saved, done(best)["bytes"])
        told.append(f"{method} saved nothing" if not saved else f"{method}'s {share} after {then:.0f} s, culm never" if when is None
                    else f"{method}'s {share} after {then:.0f} s, culm after {when:.0f}: {then / when:.1f} times sooner")
    return "; ".join(told)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("culm", help="the program")
    parser.add_argument("edge", help="folder with detectors, classifiers, clips, images and golden")
    parser.add_argument("folder")
    parser.add_argument("--workload", default=",".join(WORKLOADS), help="default: all, the smallest first")
    parser.add_argument("--method", default=",".join(METHODS))
    parser.add_argument("--rate", help="of gemel-fixed, one or more with commas between them (default: three)")
    parser.add_argument("--minutes", type=float, help="of a processor, for each package (default: by workload, 1 to 6)")
    parser.add_argument("--at-once", type=int, default=1, help="packages that are made at the same time, each on one thread")
    parser.add_argument("--before", default="", help="words before each merge, such as 'nice'")
    parser.add_argument("--table", action="store_true", help="merges nothing")
    args = parser.parse_args()
    args.culm, args.edge, args.folder = (os.path.abspath(path) for path in (args.culm, args.edge, args.folder))
    RATES["gemel-fixed"] = args.rate.split(",") if args.rate else RATES["gemel-fixed"]
    names = args.workload.split(",")
    made = [name for name in names if not os.path.exists(os.path.join(args.folder, f"{name}.yaml")) and name != "specialised"]
    if made and not args.table:
        subprocess.run([sys.executable, os.path.join(HERE, "workloads.py"), args.edge, args.folder, *made], stdout=subprocess.DEVNULL, check=True)
    names = [name for name in names if os.path.exists(os.path.join(args.folder, f"{name}.yaml"))]
    wanted = [(name, method, rate) for name in names for method in args.method.split(",") for rate in RATES.get(method, [None])]
    if not args.table:
        with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
            list(pool.map(lambda one: merge(args, *one), wanted))
    print("| workload | method | saved, of what is possible | untrained | shipped, at seconds | ended at | kept, unseen frames | kept elsewhere |")
    print("|---|---|---|---|---|---|---|---|")
    for name, method, rate in wanted:
        package = package_of(args, name, method, rate)
        if done(package):
            print(row(args, name, method, rate, package), flush=True)
    for name in names:
        if told := sooner(args, name):
            print(f"\n{name}: {told}")


main()
