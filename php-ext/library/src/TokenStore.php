<?php

declare(strict_types=1);

namespace Pillion;

/**
 * Stores the OAuth tokens of one user; users never share a store. The entries contain secrets in clear text:
 * encrypt them before you write them to a disk or a database.
 */
interface TokenStore
{
    /**
     * Returns the entry saved under a key, or null.
     *
     * @param string $key letters, digits and underscores, at most 64
     *
     * @return ?array<string, mixed>
     */
    public function load(string $key): ?array;

    /**
     * Saves an entry and replaces the previous entry; null deletes the entry.
     *
     * @param ?array<string, mixed> $tokens convertible to JSON
     */
    public function save(
        string $key,
        #[\SensitiveParameter]
        ?array $tokens,
    ): void;
}
