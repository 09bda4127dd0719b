<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Illuminate\Foundation\PackageManifest;
use PHPUnit\Framework\Attributes\DataProvider;
use Pillion\Laravel\Console\AboutSection;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\PillionServiceProvider;
use Pillion\Laravel\Tests\Support\Laravel;
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
        $used = self::packagesUsedIn(__DIR__ . '/../src', __DIR__ . '/../database', __DIR__ . '/../stubs', __DIR__ . '/../config');
        self::assertContains('psr/simple-cache', $used);
        self::assertSame([], array_values(array_diff($used, array_keys($package['require']))));
        // Only laravel/framework has Illuminate\Foundation.
        self::assertContains('illuminate/foundation', self::packagesUsedIn(__DIR__));
        self::assertArrayHasKey('laravel/framework', $package['require-dev']);
        self::assertArrayHasKey('phpunit/phpunit', $package['require-dev']);
    }

    public function test_composer_json_says_where_the_library_is(): void
    {
        $package = json_decode((string) file_get_contents(__DIR__ . '/../composer.json'), true);
        [$repository] = $package['repositories'];
        $library = json_decode((string) file_get_contents(__DIR__ . "/../{$repository['url']}/composer.json"), true);
        self::assertSame([$library['name']], array_keys($repository['options']['versions']));
        self::assertArrayHasKey($library['name'], $package['require']);
    }

    /** @return list<string> */
    private static function packagesUsedIn(string ...$folders): array
    {
        $packages = [];
        foreach (Finder::create()->files()->in($folders) as $file) {
            preg_match_all('/\b(Illuminate|Symfony\\\\Component|Psr)\\\\(Support\\\\Collection\b|\w+)/', $file->getContents(), $found, PREG_SET_ORDER);
            foreach ($found as [, $vendor, $part]) {
                $package = strtolower((string) preg_replace('/(?<=[a-z])(?=[A-Z])/', '-', $part));
                $packages[] = match ($vendor) {
                    'Illuminate' => 'illuminate/' . ($part === 'Support\\Collection' ? 'collections' : strtolower($part)),
                    'Psr' => "psr/$package",
                    default => "symfony/$package",
                };
            }
        }
        return array_values(array_unique($packages));
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

    public function test_an_application_with_cached_config_runs(): void
    {
        $this->artisanOutput('vendor:publish --tag=pillion-config');
        Laravel::artisan($this->folder->path, 'config:cache');
        self::assertFileExists($this->folder->path . '/bootstrap/cache/config.php');
        self::assertStringContainsString('42', Laravel::artisan($this->folder->path, 'pillion:call', 'calculator', '{"expression": "6 * 7"}'));
    }

    public function test_stubs_and_migrations_are_published(): void
    {
        $this->artisanOutput('vendor:publish --tag=pillion-stubs');
        self::assertFileExists($this->folder->path . '/stubs/pillion-tool.stub');
        $this->artisanOutput('vendor:publish --tag=pillion-migrations');
        self::assertCount(1, (array) glob($this->folder->path . '/database/migrations/*_create_pillion_approvals_table.php'));
    }

    public function test_each_request_of_a_long_lived_worker_gets_its_own_manager(): void
    {
        $first = $this->app->make(PillionManager::class);
        self::assertSame($first, $this->app->make(PillionManager::class));
        $this->app->make(ToolRegistry::class)->register(
            new \Pillion\ToolDefinition('at_boot', 'Registered when the application boots'),
            fn () => 'here',
        );

        // Imitates the resets of Octane and of the queue between requests and jobs.
        $this->app->forgetScopedInstances();
        \Illuminate\Support\Facades\Facade::clearResolvedInstances();

        self::assertNotSame($first, $this->app->make(PillionManager::class));
        self::assertSame('here', Pillion::call('at_boot')->result);
    }

    public function test_the_log_channel_is_defined_unless_the_application_defines_it(): void
    {
        self::assertSame(storage_path('logs/pillion.log'), config('logging.channels.pillion.path'));
        $this->configure(['log.channel' => 'pillion', 'servers' => ['gone' => ['url' => 'http://127.0.0.1:9/mcp']]]);
        Pillion::registry();
        $log = (string) file_get_contents(storage_path('logs/pillion.log'));
        self::assertStringContainsString('Skipped an MCP server that failed {"server":"gone"', $log);
    }

    public function test_a_long_lived_worker_does_not_grow(): void
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

    public function test_about_shows_the_runtime(): void
    {
        $this->configure(['servers' => ['dice' => ['url' => 'https://app:s3cret@x.example/']], 'approvals.driver' => 'database']);
        $lines = $this->app->make(AboutSection::class)->lines();
        self::assertSame(['Runs on', 'Servers', 'Approvals', 'Sidecar', 'Log'], array_keys($lines));
        self::assertStringContainsString(extension_loaded('pillion') ? 'the extension, version 0.' : 'plain PHP', $lines['Runs on']);
        self::assertSame(['dice', 'auto, stored in the database'], [$lines['Servers'], $lines['Approvals']]);
    }

    /** @return array<string, array{string, mixed, string}> */
    public static function wrongValues(): array
    {
        return [
            'servers' => ['servers', 'x', 'pillion.servers must be an array, not string'],
            'a policy' => ['approvals.policy', 'sometimes', "pillion.approvals.policy must be auto, always-ask, trusted-only, never, always or prompt, not 'sometimes'"],
            'a policy of a tool' => ['approvals.tools', ['x' => 'maybe'], 'pillion.approvals.tools.x must be auto, '],
            'a policy that is no text' => ['approvals.tools', ['x' => true], 'pillion.approvals.tools.x must be auto, always-ask, trusted-only, never, always or prompt, not bool'],
            'trusted tools' => ['approvals.trusted_tools', 'x', 'pillion.approvals.trusted_tools must be an array, not string'],
            'a driver' => ['approvals.driver', 'files', "pillion.approvals.driver must be cache or database, not 'files'"],
            'a time' => ['limits.timeout', 'soon', 'pillion.limits.timeout must be a number of seconds, not string'],
            'the socket of the sidecar' => ['sidecar.socket', ['/a.sock'], 'pillion.sidecar.socket must be a path or null, not array'],
            'the log channel' => ['log.channel', true, 'pillion.log.channel must be the name of a channel, null or false, not bool'],
            'a model for chats' => ['chat.model', ['id' => 'x'], 'pillion.chat.model must be the name of a model or null, not array'],
            'the lifetime of an approval' => ['approvals.expires_after', 'soon', 'pillion.approvals.expires_after must be a whole number, at least 0'],
            'the lifetime of a tool list' => ['cache.ttl', -1, 'pillion.cache.ttl must be a whole number, at least 0'],
            'the pause after a failure' => ['cache.retry_after', 'later', 'pillion.cache.retry_after must be a whole number, at least 0'],
            'a number of rounds' => ['limits.max_rounds', 'few', 'pillion.limits.max_rounds must be a whole number, at least 0'],
            'the calls of a conversation' => ['limits.max_calls', 1.5, 'pillion.limits.max_calls must be a whole number, at least 0'],
            'the time for the sidecar' => ['sidecar.timeout', 'long', 'pillion.sidecar.timeout must be a number of seconds, not string'],
            'limits' => ['limits', null, 'pillion.limits must be an array, not null'],
            'a number of calls' => ['limits.rate_limits', ['default' => ['per_minute' => 'few']], 'pillion.limits.rate_limits.default.per_minute must be a number of calls, at least 0'],
            'a window' => ['limits.rate_limits', ['tools' => ['x' => ['per_second' => 1]]], 'pillion.limits.rate_limits.tools.x.per_second is unknown: expected one of per_minute, per_hour, per_day'],
            'what is limited' => ['limits.rate_limits', ['tool' => []], 'pillion.limits.rate_limits.tool is unknown: expected one of default, tools, servers'],
            'an alias' => ['tools.aliases', ['clock' => ['get_time']], 'pillion.tools.aliases.clock must be a string, not array'],
            'folders' => ['tools.discover', 'app/Tools', 'pillion.tools.discover must be an array, not string'],
            'classes' => ['tools.classes', 'App\\X', 'pillion.tools.classes must be an array, not string'],
            'a built-in tool' => ['tools.builtins', ['calculater'], "pillion.tools.builtins: unknown built-in tool 'calculater'"],
            'a model' => ['models', ['any' => true], 'pillion.models.any must be an array or an object, not bool'],
        ];
    }

    /** @dataProvider wrongValues */
    #[DataProvider('wrongValues')]
    public function test_errors_in_the_configuration_are_named(string $key, mixed $value, string $message): void
    {
        $this->configure(['servers' => ['dice' => ['url' => FakeServer::url()]], 'chat.in' => 'sidecar', $key => $value]);
        $this->expectExceptionMessage($message);
        Pillion::forModel('any');
        Pillion::call('get_time');
        Pillion::approvals();
        Pillion::sidecar();
        Pillion::server('dice')->client();
        Pillion::chat();
    }

    public function test_numbers_may_come_from_the_environment(): void
    {
        $this->configure([
            'limits.timeout' => '5',
            'limits.max_concurrent' => '2',
            'limits.tool_timeouts' => ['get_time' => '5'],
            'limits.tool_concurrency' => ['get_time' => '1'],
            'limits.rate_limits' => ['default' => ['per_minute' => '1', 'per_day' => null]],
            'sidecar.timeout' => '30',
            'cache.ttl' => '60',
            'servers' => ['dice' => ['url' => FakeServer::url(), 'timeout' => '5']],
        ]);
        self::assertSame(15, Pillion::server('dice')->callTool('roll', ['dice' => '1d6'])->result['total']);
        self::assertTrue(Pillion::call('get_time')->success);
        self::assertSame('rate_limited', Pillion::call('get_time')->errorCode);
        Pillion::sidecar();
    }
}
