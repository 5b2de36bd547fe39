"""Who runs next, step by step."""

from demo.vllm.limits import Limits
from demo.vllm.request import Request
from demo.vllm.scheduler import Job, Plan, Scheduler

LIMITS = Limits(
    max_num_seqs=2, max_num_batched_tokens=40, max_model_len=128, block_size=16, num_gpu_blocks=9
)


def scheduler(*requests: tuple[str, int]) -> Scheduler:
    queue = Scheduler(LIMITS)
    for name, tokens in requests:
        prompt = tuple(ord(name) + index for index in range(tokens))
        queue.add(Job(Request(name, prompt, 60), arrived=0.0))
    return queue


def carry_out(queue: Scheduler) -> Plan:
    """One step; whatever has no tokens left to compute gives one out."""
    plan = queue.plan(0.0)
    for job, tokens in plan.work:
        queue.computed(job, tokens)
        if not job.outstanding:
            job.ids.append(7)
    return plan


def shares(plan: Plan) -> list[tuple[str, int]]:
    return [(job.request.id, tokens) for job, tokens in plan.work]


def test_a_prompt_is_computed_in_chunks_of_what_a_step_may_take() -> None:
    queue = scheduler(("a", 100))
    assert [shares(carry_out(queue)) for _ in range(4)] == [
        [("a", 40)],
        [("a", 40)],
        [("a", 20)],
        [("a", 1)],
    ]


def test_who_decodes_comes_before_who_prefills() -> None:
    queue = scheduler(("a", 10), ("b", 60))
    assert shares(carry_out(queue)) == [("a", 10), ("b", 30)]
    assert shares(carry_out(queue)) == [("a", 1), ("b", 30)]


def test_without_a_slot_or_without_budget_they_wait() -> None:
    queue = scheduler(("a", 40), ("b", 1), ("c", 1))
    assert shares(carry_out(queue)) == [("a", 40)]
    assert shares(carry_out(queue)) == [("a", 1), ("b", 1)]
    assert [job.request.id for job in queue.waiting] == ["c"]


def test_the_youngest_is_preempted_and_first_in_line_again() -> None:
    queue = scheduler(("a", 60), ("b", 60), ("c", 60))
    plan = carry_out(queue)
    while not plan.preempted:
        plan = carry_out(queue)
    assert [job.request.id for job in queue.running] == ["a"]
    assert [job.request.id for job in queue.waiting] == ["b", "c"]
    assert queue.waiting[0].computed == 0
    assert queue.pool.held == 5


def test_what_is_dropped_gives_its_blocks_back() -> None:
    queue = scheduler(("a", 40), ("b", 1), ("c", 1))
    carry_out(queue)
    for name in ("a", "c", "unknown"):
        queue.drop(name)
    assert queue.pool.held == 0
    assert shares(carry_out(queue)) == [("b", 1)]
    assert not queue.waiting
