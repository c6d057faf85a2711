"""What tests of `culm train` share that look on while a run goes, and disturb it where it stands still."""
import os

from harness import Held, check, thaw, wait_until

STAGES = 3  # of tiny_config, in each of its two pipelines


class Watched(Held):
    """A run whose events are looked at while it goes on: `until` waits for what they tell."""

    def told(self, name, node=None):
        """Its events of that name so far, of that node."""
        return [event for event in self.events() if event["event"] == name and node in (None, event.get("node"))]

    def logs(self):
        """The logs of those that the run has started; of one that was killed at once, too."""
        return os.listdir(os.path.join(os.path.dirname(self.path), "logs"))

    def step(self):
        """The last step told so far."""
        return max((event["step"] for event in self.told("step")), default=0)

    def until(self, condition, what):
        wait_until(lambda: condition() or self.process.poll() is not None, 120, what)
        check(self.process.poll() is None, f"the run ended before {what}")

    def stands(self, node):
        """Whether a fault has frozen that worker, or is about to."""
        return bool(self.told("fault", node))

    def thaw(self, node):
        thaw(self.told("joined", node)[0]["pid"])


def idle_of(worker, step):
    """Who must be frozen in that step, as (worker, step, phase), for this worker to be idle, so that it does redundant forwards: the one
    that it waits for. On a busy machine it may have no time for them otherwise."""
    first, mine = worker // STAGES * STAGES, worker % STAGES
    return first + (mine + 1) % STAGES, step, "backward" if mine + 1 < STAGES else "forward"
