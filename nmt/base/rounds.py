"""Work that goes in rounds: generators that yield questions, and receive the answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


def together(
    works: Sequence[Generator[list[Question], list[Answer], Result]],
) -> Generator[list[Question], list[Answer], list[Result]]:
    """Return all `works` as one, which asks the questions of a round all at once, and returns their results."""
    results: dict[int, Result] = {}
    answers: dict[int, list[Answer] | None] = dict.fromkeys(range(len(works)))
    while answers:
        questions = {}
        for number, given in answers.items():
            try:
                questions[number] = works[number].send(given)  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as end:
                results[number] = end.value
        asked = [question for some in questions.values() for question in some]
        found = iter((yield asked) if asked else ())
        answers = {number: list(islice(found, len(some))) for number, some in questions.items()}
    return [results[number] for number in range(len(works))]


def answer_together(
    works: Sequence[Generator[list[Question], list[Answer], Result]],
    answer: Callable[[list[Question]], Sequence[Answer]],
) -> list[Result]:
    """Run all `works` to their ends, and return their results; `answer` gets the questions of a round all at once."""
    work = together(works)
    questions, results = _next_round(work, None)
    while results is None:
        questions, results = _next_round(work, [*answer(questions)])
    return results


async def await_together(
    works: Sequence[Generator[list[Question], list[Answer], Result]],
    answer: Callable[[list[Question]], Awaitable[list[Answer]]],
    run: Callable[[Callable[[], Round[Question, Result]]], Awaitable[Round[Question, Result]]],
) -> list[Result]:
    """Do the same as `answer_together`, awaiting the answers; `run` calls a function, perhaps in a thread."""
    work = together(works)
    questions, results = await run(partial(_next_round, work, None))
    while results is None:
        questions, results = await run(partial(_next_round, work, await answer(questions)))
    return results


Round = tuple[list[Question], list[Result] | None]
"""The questions of the next round, or the results."""


def _next_round(
    work: Generator[list[Question], list[Answer], list[Result]], answers: list[Answer] | None
) -> Round[Question, Result]:
    try:
        return work.send(answers), None  # type: ignore[arg-type]  # None starts a generator
    except StopIteration as end:
        return [], end.value
