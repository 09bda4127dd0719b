<?php

declare(strict_types=1);

namespace Pillion\Fallback\Schema;

/**
 * References within a schema: `#`, or `#` followed by a JSON Pointer (RFC 6901).
 *
 * @internal
 */
final class Pointer
{
    /**
     * Returns the target of a reference; null if the reference has no target or points outside the schema.
     */
    public static function find(\stdClass $root, mixed $reference): mixed
    {
        if ($reference === '#') {
            return $root;
        }
        if (!is_string($reference) || !str_starts_with($reference, '#/')) {
            return null;
        }
        $target = $root;
        foreach (explode('/', substr($reference, 2)) as $step) {
            $step = strtr($step, ['~1' => '/', '~0' => '~']);
            $target = match (true) {
                $target instanceof \stdClass => $target->$step ?? null,
                is_array($target) && preg_match('/^(0|[1-9]\d*)$/D', $step) === 1 => $target[(int) $step] ?? null,
                default => null,
            };
        }
        return $target;
    }
}
