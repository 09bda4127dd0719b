<?php

declare(strict_types=1);

namespace Pillion;

/**
 * Keeps the OAuth tokens of one person: two users never share a store. What it is given
 * holds secrets in clear; encrypt what goes to a disk or a database.
 */
interface TokenStore
{
    /**
     * What was saved under a key; null when there is nothing.
     *
     * @param string $key letters, digits and underscores, 64 at most
     *
     * @return ?array<string, mixed>
     */
    public function load(string $key): ?array;

    /**
     * Keeps an entry in the place of the one before; null removes it.
     *
     * @param ?array<string, mixed> $tokens can be written as JSON
     */
    public function save(
        string $key,
        #[\SensitiveParameter]
        ?array $tokens,
    ): void;
}
