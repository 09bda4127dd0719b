<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Illuminate\Foundation\PackageManifest;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\PillionServiceProvider;
use Pillion\Tests\Support\FakeServer;
use Pillion\ToolRegistry;
use Symfony\Component\Finder\Finder;

final class PackageTest extends TestCase
{
    public function test_it_is_discovered(): void
    {
        $manifest = $this->app->make(PackageManifest::class);
        self::assertContains(PillionServiceProvider::class, $manifest->providers());
        self::assertSame(Pillion::class, $manifest->aliases()['Pillion']);
        self::assertInstanceOf(PillionServiceProvider::class, $this->app->getProvider(PillionServiceProvider::class));
        self::assertSame(['calculator', 'get_time', 'roll_dice'], array_keys(\Pillion::registry()->getAll()));
    }

    public function test_composer_json_names_every_package_that_the_code_uses(): void
    {
        $package = json_decode((string) file_get_contents(__DIR__ . '/../composer.json'), true);
        $used = [];
        foreach (Finder::create()->files()->name('*.php')->in(__DIR__ . '/../src') as $file) {
            preg_match_all('/^use (Illuminate|Symfony\\\\Component)\\\\(\w+)/m', $file->getContents(), $found, PREG_SET_ORDER);
            foreach ($found as [, $vendor, $part]) {
                $used[] = ($vendor === 'Illuminate' ? 'illuminate/' : 'symfony/') . strtolower($part);
            }
        }
        self::assertContains('illuminate/support', $used);
        self::assertSame([], array_values(array_diff(array_unique($used), array_keys($package['require']))));
    }

    public function test_config_is_published_and_can_be_cached(): void
    {
        [$code] = $this->artisanOutput('vendor:publish --tag=pillion-config');
        self::assertSame(0, $code);
        $published = $this->folder->path . '/config/pillion.php';
        self::assertFileEquals(__DIR__ . '/../config/pillion.php', $published);
        $config = require $published;
        self::assertSame($config, eval('return ' . var_export($config, true) . ';'));
    }

    public function test_stubs_and_migrations_are_published(): void
    {
        $this->artisanOutput('vendor:publish --tag=pillion-stubs');
        self::assertFileExists($this->folder->path . '/stubs/pillion-tool.stub');
        $this->artisanOutput('vendor:publish --tag=pillion-migrations');
        self::assertCount(1, (array) glob($this->folder->path . '/database/migrations/*_create_pillion_approvals_table.php'));
    }

    public function test_a_request_of_a_long_lived_worker_gets_a_manager_of_its_own(): void
    {
        $first = $this->app->make(PillionManager::class);
        self::assertSame($first, $this->app->make(PillionManager::class));
        $this->app->make(ToolRegistry::class)->register(
            new \Pillion\ToolDefinition('at_boot', 'Registered when the application boots'),
            fn () => 'here',
        );

        // What Octane and the queue do between requests and jobs.
        $this->app->forgetScopedInstances();
        \Illuminate\Support\Facades\Facade::clearResolvedInstances();

        self::assertNotSame($first, $this->app->make(PillionManager::class));
        self::assertSame('here', Pillion::call('at_boot')->result);
    }

    public function test_the_log_channel_is_there_unless_the_application_has_one(): void
    {
        self::assertSame(storage_path('logs/pillion.log'), config('logging.channels.pillion.path'));
        $this->configure(['log.channel' => 'pillion', 'servers' => ['gone' => ['url' => 'http://127.0.0.1:9/mcp']]]);
        Pillion::registry();
        $log = (string) file_get_contents(storage_path('logs/pillion.log'));
        self::assertStringContainsString('MCP server left out {"server":"gone"', $log);
    }

    public function test_a_worker_that_lives_long_does_not_grow(): void
    {
        $this->configure([
            'servers' => ['dice' => ['url' => FakeServer::url()]],
            'approvals.tools' => ['get_time' => 'always-ask'],
        ]);
        $request = function (int $number): void {
            $pillion = $this->app->make(PillionManager::class)->forUser("user-$number");
            self::assertSame(15, $pillion->call('dice_roll', ['dice' => '1d6'])->result['total']);
            $id = $pillion->call('get_time')->metadata['approval_id'];
            Pillion::approvals()->approve($id);
            $pillion->call('get_time');
            $this->app->forgetScopedInstances();
            Pillion::clearResolvedInstances();
        };
        $run = function (int $times) use ($request): int {
            for ($number = 0; $number < $times; $number++) {
                $request($number);
            }
            gc_collect_cycles();
            return memory_get_usage();
        };
        $before = $run(20);
        self::assertLessThan($before + 100_000, $run(100));
    }
}
