<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * Finds the known key that a misspelled key was probably meant to be.
 *
 * @internal
 */
final class NearestKey
{
    /**
     * Maximum length of a key that is compared, because the time for a comparison grows with the
     * product of the lengths of the two keys.
     */
    private const MAX_KEY_LENGTH = 60;

    /**
     * Returns the known key that `$key` resembles most; null if there is none. Case and separators
     * are ignored. A similar key has the same letters in any order, or differs by at most two
     * letters.
     *
     * @param iterable<string> $knownKeys
     */
    public static function find(string $key, iterable $knownKeys): ?string
    {
        if (strlen($key) > self::MAX_KEY_LENGTH) {
            return null;
        }
        $letters = self::extractLetters($key);
        $nearestKey = null;
        $minDistance = PHP_INT_MAX;
        foreach ($knownKeys as $candidateKey) {
            $distance = self::findDistance($letters, self::extractLetters($candidateKey));
            if ($distance !== null && $distance < $minDistance) {
                [$nearestKey, $minDistance] = [$candidateKey, $distance];
            }
        }
        return $nearestKey;
    }

    /**
     * Returns the distance between two keys: 1 for the same letters in another order, otherwise the
     * Levenshtein distance. Returns null if the keys are not similar.
     */
    private static function findDistance(string $letters, string $candidateLetters): ?int
    {
        if ($letters === $candidateLetters) {
            return 0;
        }
        // Keys of at most two letters are never similar, because almost any other key would differ
        // from them by one or two letters.
        if ($letters === '' || strlen($candidateLetters) < 3) {
            return null;
        }
        if (count_chars($letters, 1) === count_chars($candidateLetters, 1)) {
            return 1;
        }
        $distance = levenshtein($letters, $candidateLetters);
        return $distance <= (strlen($candidateLetters) <= 5 ? 1 : 2) ? $distance : null;
    }

    private static function extractLetters(string $key): string
    {
        return (string) preg_replace('/[^a-z0-9]/', '', strtolower($key));
    }
}
