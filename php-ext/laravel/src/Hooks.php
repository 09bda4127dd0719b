<?php

declare(strict_types=1);

namespace Pillion\Laravel;

use Illuminate\Contracts\Auth\Authenticatable;
use Illuminate\Contracts\Container\Container;
use Pillion\Laravel\Testing\PillionFake;

/**
 * The callbacks that an application sets in code, and the fake of a test. This class is a
 * singleton: the application sets the callbacks when it boots, and neither the callbacks nor the
 * fake contain data of a request.
 */
final class Hooks
{
    public ?PillionFake $fake = null;

    /** @var (callable(): mixed)|null */
    private $userResolver = null;

    /** @var (callable(): mixed)|null */
    private $tenantResolver = null;

    /** @var (callable(?Authenticatable): ?string)|null */
    private $consoleUserResolver = null;

    /** @var array<string, callable(?string): ?string> */
    private array $tokenResolvers = [];

    /** @param callable(): mixed $resolver returns a user, a key, or null */
    public function resolveUserUsing(callable $resolver): void
    {
        $this->userResolver = $resolver;
    }

    /** @param callable(): mixed $resolver returns a key or null */
    public function resolveTenantUsing(callable $resolver): void
    {
        $this->tenantResolver = $resolver;
    }

    /** @param callable(?Authenticatable): ?string $resolver returns the user's name; null or '' for a guest */
    public function resolveConsoleUserUsing(callable $resolver): void
    {
        $this->consoleUserResolver = $resolver;
    }

    /**
     * @param callable(?string $user): ?string $resolver returns the user's own token for the server, which
     *        replaces the configured token
     */
    public function authenticateUsing(string $server, callable $resolver): void
    {
        $this->tokenResolvers[$server] = $resolver;
    }

    /** Returns the current user; by default the user who is logged in. */
    public function user(Container $app): ?string
    {
        if ($this->userResolver !== null) {
            return self::key(($this->userResolver)());
        }
        return $app->bound('auth') ? self::key($app->make('auth')->guard()->id()) : null;
    }

    public function tenant(): ?string
    {
        return $this->tenantResolver === null ? null : self::key(($this->tenantResolver)());
    }

    /**
     * Returns the name that the console shows and records for a user; by default the e-mail
     * address, or the key of a user without an e-mail address. Null for a guest.
     */
    public function consoleUser(?Authenticatable $user): ?string
    {
        if ($this->consoleUserResolver !== null) {
            return self::key(($this->consoleUserResolver)($user));
        }
        $email = $user->email ?? null;
        return is_string($email) && $email !== '' ? $email : self::key($user);
    }

    public function hasTokenFor(string $server): bool
    {
        return isset($this->tokenResolvers[$server]);
    }

    /** @return list<string> the names of the servers for which {@see authenticateUsing()} has set a resolver */
    public function serversWithTokens(): array
    {
        return array_map('strval', array_keys($this->tokenResolvers));
    }

    public function token(string $server, ?string $user): ?string
    {
        return isset($this->tokenResolvers[$server]) ? ($this->tokenResolvers[$server])($user) : null;
    }

    /**
     * Converts a user or a tenant to a key, as a string for limits and approvals. Accepts an
     * Eloquent model or the model's key. Null and an empty key become null.
     */
    public static function key(mixed $value): ?string
    {
        if (is_object($value) && method_exists($value, 'getAuthIdentifier')) {
            $value = $value->getAuthIdentifier();
        } elseif (is_object($value) && method_exists($value, 'getKey')) {
            $value = $value->getKey();
        }
        if ($value === null || $value === '') {
            return null;
        }
        if (!is_scalar($value) && !$value instanceof \Stringable) {
            throw new \InvalidArgumentException(
                'A user or tenant must be a model, a string or a number, not ' . get_debug_type($value)
            );
        }
        return (string) $value;
    }
}
