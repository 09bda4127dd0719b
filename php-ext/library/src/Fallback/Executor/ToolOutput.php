<?php

declare(strict_types=1);

namespace Pillion\Fallback\Executor;

use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;
use Pillion\ToolResult;

/**
 * A tool's return value, as trees.
 *
 * @internal
 */
final class ToolOutput
{
    /** @param array<string, mixed> $metadata */
    public function __construct(
        public readonly mixed $result,
        public readonly mixed $data = null,
        public readonly array $metadata = [],
    ) {
    }

    /**
     * @throws ToolFailure                         when the result is a failed result
     * @throws \Pillion\Exception\PillionException when the value cannot be converted to JSON: `internal_error`
     */
    public static function of(mixed $value): self
    {
        if (!$value instanceof ToolResult) {
            return new self(Json::treeOfReturnValue($value));
        }
        $result = Json::treeOfReturnValue($value->result);
        $metadata = (array) Json::toArrays(Json::treeOfReturnValue($value->metadata));
        if ($value->success) {
            return new self($result, Json::treeOfReturnValue($value->data), $metadata);
        }
        $code = Failure::code($value->errorCode) ?? 'internal_error';
        throw new ToolFailure($code, $value->error ?? 'The tool failed', Json::toArrays($result), $metadata);
    }

    /**
     * Rejects an output that is larger than `$limit` bytes as JSON, because truncated JSON would fail later
     * without a clear cause.
     *
     * @throws ToolFailure
     */
    public function checkSize(string $tool, int $limit): self
    {
        $size = self::estimateSize($this->result) + ($this->data === null ? 0 : self::estimateSize($this->data));
        if ($size > $limit) {
            throw new ToolFailure('internal_error', "Tool '$tool' returned $size bytes; the limit is $limit");
        }
        return $this;
    }

    /** Returns the approximate size as JSON, without encoding the value. */
    private static function estimateSize(mixed $tree): int
    {
        $size = match (true) {
            is_string($tree) => strlen($tree) + 2,
            is_int($tree), is_float($tree) => 8,
            is_array($tree), $tree instanceof \stdClass => 2,
            default => 5,
        };
        if (is_array($tree)) {
            foreach ($tree as $element) {
                $size += self::estimateSize($element) + 1;
            }
        } elseif ($tree instanceof \stdClass) {
            foreach (get_object_vars($tree) as $key => $member) {
                $size += strlen((string) $key) + self::estimateSize($member) + 4;
            }
        }
        return $size;
    }
}
