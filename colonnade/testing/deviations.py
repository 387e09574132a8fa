"""Where Colonnade does not do as TensorFlow does, and why: the one list, which verifications and the fuzzer use.

Whatever is not listed and differs is a mistake of ours. A row that TensorFlow refuses must be refused, unless a
deviation that `answers` says that it may be answered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Deviation:
    """One difference.

    answers: of the rows of a request and TensorFlow's message, whether this is why we answer what TensorFlow refuses;
    None where both answer or the user asked for it.
    """

    name: str
    tensorflow: str
    ours: str
    reason: str
    answers: Callable[[int, str], bool] | None = None


DEVIATIONS = (
    Deviation(
        "no rows",
        "refuses a request without rows where a reshape has an unknown dim beside the batch (SparseReshape, Reshape), "
        "or a cross of vectors is squeezed (it has no width then)",
        "answers with outputs that have no rows",
        "the sizes are known from the model: the error is the op's, which divides by the number of rows",
        lambda rows, message: rows == 0,
    ),
    Deviation(
        "an id outside its table",
        "refuses the request on a CPU and reads zeros on a GPU, without a word",
        "refuses the request on every device; with the id policy 'zero' reads zeros on every device and counts them",
        "the same request has the same answer wherever it runs; zeros are the user's own choice",
    ),
    Deviation(
        "ids far outside a table of parts",
        "numbers the parts of a partitioned table in int32: an id beyond 2^31 times a part may read a row of it",
        "refuses the request, as for any id outside its table",
        "the id is outside its table",
    ),
    Deviation(
        "dense weights that are not where the ids are",
        "drops missing ids (-1 or empty) and weights (0), and pairs what is left in order, over all rows of a request; "
        "refuses it where there are not as many",
        "refuses every request that lacks an id where it has a weight, or the other way round",
        "the weight of one row would count for an id of another",
    ),
    Deviation(
        "places that do not rise",
        "takes the elements of a sequence in any order, and pools those that stand in one place",
        "refuses the request, with the advice to reorder the elements of the sparse tensor",
        "columns read elements in the order of their places; a sequence has one element a place",
    ),
    Deviation(
        "the order of sums",
        "adds the rows of a pooled feature, and the products of a dense layer, in an order of its own",
        "adds pooled rows in the order of TensorFlow's kernels, products in torch's; where TensorFlow's rewrites or "
        "threads, a GPU or torch change the order, the last bits of float32 sums differ, within the tolerance of "
        "`colonnade verify`; a lookup of one row has equal bits",
        "no order is more right, and TensorFlow's own changes with the machine and the number of threads",
    ),
    Deviation(
        "denormal floats",
        "flushes them to zero",
        "flushes those that make an id; pooled and dense values may keep them",
        "an id that differs is another row; a difference below the least normal float32 is below any tolerance",
    ),
    Deviation(
        "weights of almost nothing",
        "flushes a product or a square of weights to zero where it is a denormal float, also where it is then divided "
        "by a weight as small: a mean of one row with the weight 1.2e-38 is 0",
        "keeps it: the mean is the row",
        "the exact answer; weights of 1e-18 and more have the same answer",
    ),
    Deviation(
        "batches that broadcast",
        "adds or multiplies a batch of 1 row to one of N rows where two inputs with batch sizes of their own meet",
        "takes the two batch sizes to be one, and refuses a request in which they differ",
        "one batch size is what nearly every model means, and what lets columns share a kernel and its proofs; a model "
        "that means one user for many candidates says so by tiling, which is understood",
    ),
    Deviation(
        "sizes that overflow int32",
        "computes with sizes in int32 where the model says so, and wraps: a reshape then fails, or means another shape",
        "computes with sizes in 64 bits where they are free of overflow for 2^20 rows and elements, also beyond that",
        "what a request of more than a million rows would do there is an error or nonsense",
    ),
    Deviation(
        "marks of newer Unicodes beside a sigma",
        "makes small letters of UTF-8 by Unicode 13: marks that came later are none to a capital sigma beside them",
        "takes them for marks: the sigma is a final one, or not, as the letters behind them say",
        "Python's tables are those of its own version; no other letter depends on what stands beside it",
    ),
    Deviation(
        "the largest of what holds NaN",
        "gives the largest k of numbers and NaN by comparisons that no NaN answers: their places decide",
        "takes NaN for larger than all numbers",
        "no answer is right, and this one is the same wherever the NaN stand",
    ),
    Deviation(
        "kernels of oneDNN",
        "takes them on CPUs with AVX-512 or AMX, unless TF_ENABLE_ONEDNN_OPTS=0: a relu behind a product makes 0 of "
        "NaN, a softmax gives 0 beside NaN, a convolution of no rows has another shape",
        "keeps NaN, as TensorFlow does on all other machines; it is compared with TensorFlow's own kernels",
        "the same request has the same answer wherever it runs",
    ),
    Deviation(
        "payloads of NaN",
        "gives a NaN whose bits depend on the machine",
        "gives a NaN",
        "the bits of a NaN mean nothing",
    ),
    Deviation(
        "sums that overflow",
        "gives infinity or a finite value, by the order of addition",
        "may give the other one",
        "as for the order of sums: dense values behind inputs of 1e18 and more are not compared",
    ),
)


def excuse(rows: int, message: str) -> Deviation | None:
    """The deviation by which a request of so many rows is answered that TensorFlow refuses with this message."""
    return next((d for d in DEVIATIONS if d.answers is not None and d.answers(rows, message)), None)
