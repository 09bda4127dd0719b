<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * Finds the known key that a misspelled key stands for.
 *
 * @internal
 */
final class NearestKey
{
    /** A longer key is not compared: the comparison takes time proportional to the product of the lengths. */
    private const MAX_LENGTH = 60;

    /**
     * Returns the known key that differs from `$key` only by case, separators, the order of its letters, or one or two
     * letters; null if there is none.
     *
     * @param iterable<string> $known
     */
    public static function find(string $key, iterable $known): ?string
    {
        if (strlen($key) > self::MAX_LENGTH) {
            return null;
        }
        $letters = self::letters($key);
        $nearest = null;
        $minDistance = PHP_INT_MAX;
        foreach ($known as $candidate) {
            $distance = self::distance($letters, self::letters($candidate));
            if ($distance !== null && $distance < $minDistance) {
                [$nearest, $minDistance] = [$candidate, $distance];
            }
        }
        return $nearest;
    }

    /** Returns the number of different letters; null if the keys are not similar. */
    private static function distance(string $letters, string $candidate): ?int
    {
        if ($letters === $candidate) {
            return 0;
        }
        // Two letters are too few to recognize a key by.
        if ($letters === '' || strlen($candidate) < 3) {
            return null;
        }
        if (count_chars($letters, 1) === count_chars($candidate, 1)) {
            return 1;
        }
        $distance = levenshtein($letters, $candidate);
        return $distance <= (strlen($candidate) <= 5 ? 1 : 2) ? $distance : null;
    }

    private static function letters(string $key): string
    {
        return (string) preg_replace('/[^a-z0-9]/', '', strtolower($key));
    }
}
