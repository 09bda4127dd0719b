<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Support;

use Illuminate\Support\Facades\Cache;
use Pillion\Exception\TimeoutException;
use Pillion\Laravel\Approvals\Approvals;
use Pillion\Laravel\Chat\ChatConfig;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\Contracts\ApprovalStore;
use Pillion\Laravel\Execution\ExecutorOptions;
use Pillion\Laravel\Execution\RateLimits;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Models\ModelDirectory;
use Pillion\Laravel\RequestServices;
use Pillion\Laravel\Servers\OpenClients;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\Sidecar;
use Pillion\Worker;

/**
 * A value for each setting of config/pillion.php, and the effect on the classes that use the
 * setting.
 */
final class SettingsProbe
{
    /** @return array<string, mixed> settings, each with another value than its default */
    public static function settings(string $folder, string $server, string $socket): array
    {
        return [
            'servers' => ['dice' => ['url' => $server, 'timeout' => 7], 'gone' => ['url' => 'http://127.0.0.1:9/mcp']],
            'tools' => [
                'discover' => ["$folder/app/Probes" => 'App\\Probes'],
                'classes' => ['App\\Listed\\Listed'],
                'builtins' => ['calculator', 'get_weather'],
                'services' => ['get_weather' => extension_loaded('pillion') ? ['provider' => 'mock'] : []],
                'aliases' => ['sum' => 'calculator'],
            ],
            'models' => ['own' => ['function_calling' => true]],
            'model_lists' => 'probe_lists',
            'default_model' => ['provider' => 'anthropic', 'function_calling' => true, 'mcp' => false, 'enabled_tools' => ['calculator']],
            'chat' => ['in' => 'sidecar', 'model' => 'demo', 'options' => ['system' => 'Be brief']],
            'approvals' => [
                'policy' => 'trusted-only',
                'trusted_tools' => ['calculator'],
                'tools' => ['get_weather' => 'always-ask'],
                'driver' => 'database',
                'store' => 'probe',
                'connection' => 'second',
                'table' => 'probe_approvals',
                'expires_after' => 61,
                'max_pending' => 62,
                'max_pending_per_user' => 63,
            ],
            'limits' => [
                'timeout' => 11,
                'tool_timeouts' => ['calculator' => 12],
                'max_concurrent' => 13,
                'server_concurrency' => ['dice' => 14],
                'tool_concurrency' => ['calculator' => 15],
                'queue_timeout' => 16,
                'max_output_bytes' => 170_000,
                'max_rounds' => 18,
                'max_calls' => 19,
                'rate_limits' => ['default' => ['per_minute' => 20]],
            ],
            'cache' => ['store' => 'probe', 'ttl' => 777, 'retry_after' => 888],
            'sidecar' => ['socket' => $socket, 'timeout' => 0.5, 'register' => true],
            'console' => ['path' => 'probe/console', 'domain' => 'console.example', 'middleware' => ['probe'], 'stream_seconds' => 21],
            'log' => ['channel' => 'probe', 'level' => 'error'],
            'disconnect_on_terminate' => true,
        ];
    }

    /** @return array<string, mixed> by setting, what {@see settings()} has or what follows from it */
    public static function observe(): array
    {
        $config = app('config');
        $registry = Pillion::registry();
        $entries = self::read(Cache::store('probe')->getStore(), 'storage');
        $lifetime = fn (string $key) => array_values(array_map(
            fn (array $entry) => (int) round($entry['expiresAt'] - microtime(true), -1),
            array_filter($entries, fn (string $name) => str_contains($name, $key), ARRAY_FILTER_USE_KEY),
        ));
        $options = ExecutorOptions::fromConfig($config, app(ServerDirectory::class));
        $unknown = Pillion::forModel('unknown');
        $chat = app(ChatConfig::class);
        $routes = app('router')->getRoutes();
        $routes->refreshNameLookups();
        $console = $routes->getByName('pillion.console');
        $store = app(ApprovalStore::class);
        $approvals = app(Approvals::class);
        RequestServices::current()->log()?->log('info', 'A message');
        $observed = [
            'servers' => array_keys(Pillion::servers()),
            'tools.discover' => $registry->has('probed'),
            'tools.classes' => $registry->has('listed'),
            'tools.builtins' => [$registry->has('calculator'), $registry->has('get_time')],
            'tools.services' => $registry->has('get_weather'),
            'tools.aliases' => $registry->has('sum'),
            'models' => in_array('own', app(ModelDirectory::class)->names(), true),
            'model_lists' => in_array('in a list', app(ModelDirectory::class)->names(), true),
            'default_model' => [$unknown->provider(), $unknown->names()],
            'chat.in' => $chat->runsInSidecar(),
            'chat.model' => $chat->defaultModel(),
            'chat.options' => $chat->options([])['system'],
            'approvals.policy' => $options['approvals']['default'],
            'approvals.trusted_tools' => $options['approvals']['trusted_tools'],
            'approvals.tools' => Pillion::call('get_weather', ['location' => 'Rome'])->errorCode,
            'approvals.driver' => class_basename($store),
            'approvals.connection' => self::read($store, 'connection')->getName(),
            'approvals.table' => self::read($store, 'table'),
            'approvals.expires_after' => self::read($approvals, 'expiresAfter'),
            'approvals.max_pending' => self::read($approvals, 'maxPending'),
            'approvals.max_pending_per_user' => self::read($approvals, 'maxPendingPerUser'),
            'limits.max_rounds' => self::read($unknown, 'maxRounds'),
            'limits.max_calls' => self::read($unknown, 'maxCalls'),
            'limits.rate_limits' => self::read(RateLimits::forTenant(app(), null), 'limits'),
            'cache.store' => count($entries) > 1,
            'cache.ttl' => $lifetime('pillion_'),
            'cache.retry_after' => $lifetime('skipped:gone'),
            'sidecar.socket' => [(new Sidecar())->getSocketPath(), (new Worker())->getSocketPath()],
            'sidecar.register' => $registry->has('from_sidecar_roll'),
            'console.path' => dirname($console->uri()),
            'console.domain' => $console->getDomain(),
            'console.middleware' => $console->gatherMiddleware(),
            'console.stream_seconds' => ConfigReader::readWholeNumber($config, 'console.stream_seconds', 60),
            'log.channel' => str_contains((string) file_get_contents(storage_path('logs/probe.log')), 'A message') ? 'probe' : null,
            'log.level' => $config->get('logging.channels.pillion.level'),
            'disconnect_on_terminate' => count(self::read(app(OpenClients::class), 'clients')) > 0,
        ];
        foreach (['timeout', 'tool_timeouts', 'max_concurrent', 'server_concurrency', 'tool_concurrency', 'queue_timeout', 'max_output_bytes'] as $limit) {
            $observed["limits.$limit"] = $options[$limit];
        }
        $observed['sidecar.timeout'] = self::timeoutOfSidecar();
        $config->set('pillion.approvals.driver', 'cache');
        $observed['approvals.store'] = self::read(app(ApprovalStore::class), 'cache') === Cache::store('probe');
        return $observed;
    }

    private static function timeoutOfSidecar(): string
    {
        $socket = sys_get_temp_dir() . '/pillion-mute-' . getmypid();
        $listener = stream_socket_server("unix://$socket");
        config(['pillion.sidecar.socket' => $socket]);
        try {
            Pillion::sidecar()->listTools();
            return 'no timeout';
        } catch (TimeoutException $e) {
            return preg_match('/0\.5 ?s/', $e->getMessage()) === 1 ? '0.5s' : $e->getMessage();
        } finally {
            fclose($listener);
            unlink($socket);
        }
    }

    private static function read(object $object, string $property): mixed
    {
        return (fn () => $this->{$property})->call($object);
    }
}
