<?php

declare(strict_types=1);

namespace Pillion\Laravel;

/**
 * The user and the tenant of an operation.
 *
 * @internal
 */
final class Identity
{
    public function __construct(public readonly ?string $user, public readonly ?string $tenant)
    {
    }

    /**
     * Returns a key that is unique for the user and the tenant. A missing user and a user with an
     * empty key get different keys.
     */
    public function key(): string
    {
        return serialize([$this->tenant, $this->user]);
    }

    public function withUser(?string $user): self
    {
        return new self($user, $this->tenant);
    }
}
