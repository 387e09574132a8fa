"""The pipelines: which passes, in which order, and why each stands where it stands."""

from __future__ import annotations

from colonnade.passes.base import Pass
from colonnade.passes.bucket_bounds import BucketBounds
from colonnade.passes.check_unknown import CheckUnknown
from colonnade.passes.clip_tables import ClipTables
from colonnade.passes.drop_empty_selects import DropEmptySelects
from colonnade.passes.drop_filling import DropFilling
from colonnade.passes.drop_guards import DropGuards
from colonnade.passes.drop_identities import DropIdentities
from colonnade.passes.drop_selects import DropSelects
from colonnade.passes.drop_sparse_reshapes import DropSparseReshapes
from colonnade.passes.extract_columns import ExtractColumns
from colonnade.passes.fill_places import FillPlaces
from colonnade.passes.flatten_concats import FlattenConcats
from colonnade.passes.fold_constants import FoldConstants
from colonnade.passes.fold_shapes import FoldShapes
from colonnade.passes.hash_decimals import HashDecimals
from colonnade.passes.mark_masks import MarkMasks
from colonnade.passes.merge_empty_rows import MergeEmptyRows
from colonnade.passes.merge_shards import MergeShards
from colonnade.passes.merge_trimmed import MergeTrimmed
from colonnade.passes.merge_unique import MergeUnique
from colonnade.passes.merge_weighted import MergeWeighted
from colonnade.passes.name_widths import NameWidths
from colonnade.passes.one_hots import OneHots
from colonnade.passes.pad_examples import PadExamples
from colonnade.passes.pad_tokens import PadTokens
from colonnade.passes.pair_weights import PairWeights
from colonnade.passes.pool_places import PoolPlaces
from colonnade.passes.pool_segments import PoolSegments
from colonnade.passes.pool_single_rows import PoolSingleRows
from colonnade.passes.ragged_inputs import RaggedInputs
from colonnade.passes.row_ids import RowIds
from colonnade.passes.scatter_weights import ScatterWeights
from colonnade.passes.spread_rows import SpreadRows
from colonnade.passes.sum_rows import SumRows
from colonnade.passes.vocabularies import Vocabularies
from colonnade.passes.warnings.base import Warn
from colonnade.passes.warnings.float_ids import FloatIds
from colonnade.passes.warnings.identical_columns import IdenticalColumns
from colonnade.passes.warnings.idle_buckets import IdleBuckets

COLUMNS: tuple[Pass, ...] = (
    RaggedInputs(),  # first: shapes of inputs are content from here on; row numbers are still spelt as they came
    MergeShards(),  # before cleaning: parts are still dealt out by the arithmetic that TensorFlow writes
    PairWeights(),  # before guards: ids and weights then have one index matrix, whose guards are understood
    DropIdentities(),  # then: most nodes of a shape computation die here, every later pass is cheaper
    DropSparseReshapes(),  # before guards: the guard's operands become the producer's own indices
    NameWidths(),  # before spread-rows, whose places are of rows as wide as a request tells
    ClipTables(),  # before spread-rows, which pads rows of a table
    SpreadRows(),  # once reshapes that change nothing are gone; before all that drops elements, which it moves
    MergeShards(),  # again: ids that were padded have one size now, so that places count them
    HashDecimals(),  # before vocabularies: a text has no column op, its hash has one
    Vocabularies(),  # after hash-decimals, whose buckets it takes; before guards and selects, for the ranges it proves
    DropGuards(),  # before filling: only unguarded indices can be proven to be every row
    PadExamples(),  # before extraction, which reads dense features; shapes are content since the first pass
    BucketBounds(),  # any time before extraction: a search has no column op, a bucket has one
    FillPlaces(),  # any time before extraction: a reshape is read through
    DropFilling(),  # after guards; dense one-per-row columns lose their filling here
    DropSelects(),  # after filling: its indicator is then all false
    ClipTables(),  # again, after all cleaning, when no reshape is left between rows and their norm
    MergeUnique(),  # before pooling is matched: the pooling's data is then the table
    PoolSingleRows(),  # after filling: rows are then iota; what stays is pooled
    MergeTrimmed(),  # beside merge-empty-rows, which takes what was filled
    RowIds(),  # before pool-segments, which takes sums by row numbers that are sorted
    PoolSegments(),  # beside merge-trimmed: both take rows that are not filled
    SumRows(),  # after pool-segments, which takes sums of looked up rows: what is left is added up in the dense rest
    MergeEmptyRows(),  # after pool-single-rows, which is the cheaper form
    MergeWeighted(),  # beside merge-empty-rows, which takes the bags without weights
    DropEmptySelects(),  # after merge-empty-rows, which makes the bags it looks for
    PoolPlaces(),  # after vocabularies and selects, which leave ids that can be read
    OneHots(),  # after guards and hashes, which prove ids; before the last cleaning, which drops reshapes behind it
    ScatterWeights(),  # beside one-hots, which takes marks without weights
    DropIdentities(),  # again: reshapes between pooling and concat, arithmetic on indices that is now bare
    FoldConstants(),  # beside fold-shapes, which does it to integers
    FoldShapes(),  # last of the cleaning: only shape operands that something still reads become constants
    ExtractColumns(),  # when nothing stands between lookups and inputs but column ops
    PadTokens(),  # after extraction: tokens that a mask keeps are pooled then, and need no places
    PoolPlaces(),  # again: rows of tokens may have a width now
    FoldShapes(),  # again: requests tell the number of places now
    ExtractColumns(),  # again, of what was padded
    CheckUnknown(),  # after extraction: it looks for columns that check what is asserted
    MarkMasks(),  # after both, which take comparisons away: what is left is read by the dense rest
    FlattenConcats(),  # after extraction: columns then write straight into the outermost concat
)

WARNINGS: tuple[Warn, ...] = (FloatIds(), IdleBuckets(), IdenticalColumns())
"""Looked for in the assembled program, in any order; a frontend adds what it sees in the source."""
