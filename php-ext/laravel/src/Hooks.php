<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Contracts\Container\Container;
use Pillion\Laravel\Testing\PillionFake;

/**
 * The callbacks that an application sets in code, and the fake of a test. A singleton: it is set up when the
 * application boots and holds no data of a request.
 */
final class Hooks
{
    public ?PillionFake $fake = null;

    /** @var (callable(): mixed)|null */
    private $user = null;

    /** @var (callable(): mixed)|null */
    private $tenant = null;

    /** @var array<string, callable(?string): ?string> */
    private array $tokens = [];

    /** @param callable(): mixed $resolver returns a user, a key, or null */
    public function resolveUserUsing(callable $resolver): void
    {
        $this->user = $resolver;
    }

    /** @param callable(): mixed $resolver returns a key or null */
    public function resolveTenantUsing(callable $resolver): void
    {
        $this->tenant = $resolver;
    }

    /**
     * @param callable(?string $user): ?string $resolver returns the user's own token for the server, which
     *        replaces the configured one
     */
    public function authenticateUsing(string $server, callable $resolver): void
    {
        $this->tokens[$server] = $resolver;
    }

    /** Returns the current user; by default the user who is logged in. */
    public function user(Container $app): ?string
    {
        if ($this->user !== null) {
            return self::key(($this->user)());
        }
        return $app->bound('auth') ? self::key($app->make('auth')->guard()->id()) : null;
    }

    public function tenant(): ?string
    {
        return $this->tenant === null ? null : self::key(($this->tenant)());
    }

    public function hasTokenFor(string $server): bool
    {
        return isset($this->tokens[$server]);
    }

    public function token(string $server, ?string $user): ?string
    {
        return isset($this->tokens[$server]) ? ($this->tokens[$server])($user) : null;
    }

    /** Returns the key of a user or tenant model, or the key itself, as a string for limits and approvals. */
    public static function key(mixed $of): ?string
    {
        if (is_object($of) && method_exists($of, 'getAuthIdentifier')) {
            $of = $of->getAuthIdentifier();
        } elseif (is_object($of) && method_exists($of, 'getKey')) {
            $of = $of->getKey();
        }
        if ($of === null || $of === '') {
            return null;
        }
        if (!is_scalar($of) && !$of instanceof \Stringable) {
            throw new \InvalidArgumentException(
                'A user or tenant is a model, a text or a number, not ' . get_debug_type($of)
            );
        }
        return (string) $of;
    }
}
