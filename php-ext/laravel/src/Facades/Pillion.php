<?php

declare(strict_types=1);

namespace Pillion\Laravel\Facades;

use Illuminate\Support\Facades\Facade;
use Pillion\Laravel\PillionManager;

/**
 * @method static \Illuminate\Support\Collection<string, \Pillion\ToolInterface> tools()
 * @method static \Pillion\Laravel\Servers\Server server(string $name)
 * @method static array<string, \Pillion\Laravel\Servers\Server> servers()
 * @method static \Pillion\ToolResult call(string $tool, array<string, mixed> $arguments = [], array<string, mixed> $context = [])
 * @method static list<\Pillion\ToolResult> callTools(list<\Pillion\ToolCall|array<string, mixed>> $calls, array<string, mixed> $context = [])
 * @method static list<\Pillion\ToolResult> parallel(list<\Pillion\ToolCall|array<string, mixed>> $calls, array<string, mixed> $context = [])
 * @method static \Pillion\ToolRegistry registry(bool $withServers = true)
 * @method static array<string, string> skipped()
 * @method static \Pillion\Laravel\Execution\Executor executor(array<string, mixed> $options = [])
 * @method static \Pillion\Laravel\Models\ModelTools forModel(string|array<string, mixed>|object $model)
 * @method static \Pillion\Laravel\Chat\Chat chat(string|array<string, mixed>|null $model = null, array<string, mixed> $options = [])
 * @method static \Pillion\Laravel\PillionManager forUser(mixed $user)
 * @method static \Pillion\Laravel\PillionManager forTenant(mixed $tenant)
 * @method static \Pillion\Sidecar sidecar()
 * @method static \Pillion\Laravel\Approvals\Approvals approvals()
 * @method static void resolveUserUsing(callable $resolver)
 * @method static void resolveTenantUsing(callable $resolver)
 * @method static void resolveConsoleUserUsing(callable $resolver)
 * @method static void authenticateUsing(string $server, callable $resolver)
 * @method static void disconnect()
 * @method static \Pillion\Laravel\Testing\PillionFake fake(?array<string, mixed> $fakes = null)
 * @method static \Pillion\Laravel\Testing\ResultSequence sequence(list<mixed> $results = [])
 * @method static \Pillion\Laravel\Testing\PillionFake preventStrayCalls(bool $prevent = true)
 * @method static \Pillion\Laravel\Testing\PillionFake fakeModel(string|array<string, array<string, mixed>>|\Throwable ...$answers)
 * @method static \Pillion\Laravel\Testing\PillionFake assertToolCalled(string $tool, int|array|callable|null $expect = null)
 * @method static \Pillion\Laravel\Testing\PillionFake assertToolCalledTimes(string $tool, int $times)
 * @method static \Pillion\Laravel\Testing\PillionFake assertToolNotCalled(string $tool, array|callable|null $expect = null)
 * @method static \Pillion\Laravel\Testing\PillionFake assertNothingCalled()
 * @method static \Pillion\Laravel\Testing\PillionFake assertCalledInOrder(list<string> $tools)
 * @method static list<\Pillion\Laravel\Testing\RecordedCall> recorded(?string $tool = null)
 *
 * @see PillionManager
 */
final class Pillion extends Facade
{
    /**
     * Whether the facade caches the manager. The value is false, because each request or job has
     * its own manager. Laravel 9 and later then resolve the manager from the container for each
     * call.
     */
    protected static $cached = false;

    protected static function getFacadeAccessor(): string
    {
        return PillionManager::class;
    }
}
