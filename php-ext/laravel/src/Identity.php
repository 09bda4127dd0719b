<?php

declare(strict_types=1);

namespace Pillion\Laravel;

/**
 * For whom something is done.
 *
 * @internal
 */
final class Identity
{
    public function __construct(public readonly ?string $user, public readonly ?string $tenant)
    {
    }

    /** A text that no other identity has: nobody is not the user with an empty key. */
    public function key(): string
    {
        return serialize([$this->tenant, $this->user]);
    }

    public function withUser(?string $user): self
    {
        return new self($user, $this->tenant);
    }
}
