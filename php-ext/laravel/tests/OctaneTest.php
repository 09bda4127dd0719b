<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Closure;
use Illuminate\Auth\GenericUser;
use Illuminate\Container\Container;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Facade;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\RequestServices;
use Pillion\Laravel\Servers\OpenClients;
use Pillion\Laravel\Tests\Fixtures\BootedProvider;
use Pillion\Tests\Support\FakeServer;
use Pillion\ToolDefinition;
use Pillion\ToolRegistry;

/**
 * Many requests in one process, like in Octane (`Worker::handle()`, `CurrentApplication::set()`
 * and the listeners of its configuration, which are imitated here: Octane cannot be installed with
 * Debian's Laravel 8).
 */
final class OctaneTest extends TestCase
{
    /** @param Closure(Application): mixed $work what the request's route does */
    private function request(Closure $work, ?string $user = null): mixed
    {
        $sandbox = clone $this->app;
        $this->become($sandbox);
        $request = Request::create('/chat');
        // Imitates Octane's listeners of RequestReceived.
        $sandbox->instance('config', clone $sandbox['config']);
        foreach (['auth', 'cache', 'session'] as $service) {
            $manager = $sandbox->make($service);
            if (method_exists($manager, 'setApplication')) {
                $manager->setApplication($sandbox);
            }
        }
        $sandbox->make('auth')->forgetGuards();
        $sandbox->make('router')->setContainer($sandbox);
        $sandbox->instance('request', $request);
        $kernel = $sandbox->make(Kernel::class);
        $kernel->setApplication($sandbox);

        $answer = null;
        $sandbox->make('router')->get('/chat', function () use ($work, $user, $sandbox, &$answer): string {
            if ($user !== null) {
                $sandbox->make('auth')->guard()->setUser(new GenericUser(['id' => $user]));
            }
            $answer = $work($sandbox);
            return 'done';
        });
        try {
            $response = $kernel->handle($request);
            self::assertSame('done', $response->getContent());
            $kernel->terminate($request, $response);
            // Imitates Octane's listeners of OperationTerminated.
            $this->app->forgetScopedInstances();
        } finally {
            $sandbox->flush();
            $this->become($this->app);
        }
        return $answer;
    }

    private function become(Application $app): void
    {
        $app->instance('app', $app);
        $app->instance(Container::class, $app);
        Container::setInstance($app);
        Facade::clearResolvedInstances();
        Facade::setFacadeApplication($app);
    }

    protected function setUp(): void
    {
        parent::setUp();
        foreach (['auth', 'cache', 'config', 'db', 'encrypter', 'files', 'log', 'router', 'session', 'url'] as $warm) {
            $this->app->make($warm);
        }
    }

    protected function tearDown(): void
    {
        $this->become($this->app);
        parent::tearDown();
    }

    public function test_settings_of_a_providers_boot_apply_to_each_request(): void
    {
        $this->app->register(BootedProvider::class);
        foreach (['alice', 'bob', null] as $user) {
            $seen = $this->request(fn () => [
                Pillion::call('at_boot')->result,
                Pillion::server('dice')->user,
                Pillion::server('dice')->tenant,
                Pillion::registry()->has('at_boot'),
            ], $user);
            self::assertSame(['here', $user === null ? null : "key-of-$user", 'acme', true], $seen);
        }
    }

    public function test_no_state_of_a_request_is_visible_to_the_next(): void
    {
        // A service provider has resolved all services before the first request.
        $this->app->make(ToolRegistry::class)->register(new ToolDefinition('at_boot', 'A test'), fn () => 'here');
        Pillion::call('at_boot');
        Pillion::registry();
        $first = $this->request(function (Application $app): array {
            Pillion::registry()->register(new ToolDefinition('of_alice', 'A test'), fn () => 'hers');
            config(['pillion.approvals.tools' => ['at_boot' => 'always-ask']]);
            return [
                Pillion::call('of_alice')->result,
                Pillion::call('at_boot')->errorCode,
                Pillion::server('dice')->user,
                $app->make(RequestServices::class),
            ];
        }, 'alice');
        self::assertSame(['hers', 'approval_required', 'alice'], array_slice($first, 0, 3));
        $second = $this->request(fn (Application $app) => [
            Pillion::call('of_alice')->errorCode,
            Pillion::call('at_boot')->result,
            Pillion::server('dice')->user,
            $app->make(RequestServices::class),
        ]);
        self::assertSame(['not_found', 'here', null], array_slice($second, 0, 3));
        self::assertNotSame($first[3], $second[3]);
    }

    public function test_tools_and_manager_belong_to_the_container_of_the_request(): void
    {
        $this->app->make(ToolRegistry::class)->register(
            new ToolDefinition('whose', 'A test'),
            fn () => Container::getInstance()->make('request')->path() . ' ' . spl_object_id(Container::getInstance()),
        );
        // A reference to the manager retains no state of a request.
        $storedManager = $this->app->make(PillionManager::class);
        foreach ([1, 2] as $ignored) {
            [$id, $called, $of, $user] = $this->request(fn (Application $app) => [
                spl_object_id($app),
                Pillion::call('whose')->result,
                $storedManager->call('whose')->result,
                $storedManager->server('dice')->user,
            ], 'carol');
            self::assertSame(["chat $id", "chat $id", 'carol'], [$called, $of, $user]);
        }
    }

    public function test_sessions_end_with_each_request(): void
    {
        $this->needsTheExtension();
        $this->configure(['disconnect_on_terminate' => true]);
        $clients = [];
        for ($requests = 0; $requests < 2; $requests++) {
            $clients[] = $this->request(function (Application $app): array {
                Pillion::server('dice')->callTool('roll', ['dice' => '1d6']);
                $open = $app->make(OpenClients::class);
                return [$open, (fn () => count($this->clients))->call($open)];
            });
        }
        foreach ($clients as [$open, $before]) {
            self::assertSame([1, 0], [$before, (fn () => count($this->clients))->call($open)]);
        }
    }

    public function test_a_worker_does_not_grow(): void
    {
        $request = fn (int $number) => $this->request(fn () => Pillion::call('get_time')->success, "user-$number");
        $run = function (int $times) use ($request): int {
            for ($number = 0; $number < $times; $number++) {
                self::assertTrue($request($number));
            }
            gc_collect_cycles();
            return memory_get_usage();
        };
        $before = $run(20);
        self::assertLessThan($before + 200_000, $run(100));
    }

    /** @return array<string, string> */
    protected function files(): array
    {
        return ['config/pillion.php' => "<?php return ['servers' => ['dice' => ['register' => false, 'url' => "
            . var_export(FakeServer::url(), true) . "]]];"];
    }
}
