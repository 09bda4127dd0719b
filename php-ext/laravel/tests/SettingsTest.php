<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Illuminate\Support\Arr;
use Pillion\Laravel\Tests\Support\Laravel;
use Pillion\Laravel\Tests\Support\SettingsProbe;
use Pillion\Tests\Support\FakeLlm;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\SidecarProcess;

/** Each setting of a cached configuration reaches the classes that use the setting, in another process. */
final class SettingsTest extends TestCase
{
    protected function files(): array
    {
        $tool = fn (string $namespace, string $class, string $name) => "<?php namespace App\\$namespace; #[\\Pillion\\AsTool(name: '$name', description: 'A test')] "
            . "class $class { public function __invoke(): string { return 'here'; } }";
        return [
            'app/Probes/Probed.php' => $tool('Probes', 'Probed', 'probed'),
            'app/Listed/Listed.php' => $tool('Listed', 'Listed', 'listed'),
            'config/probe_lists.php' => "<?php return ['list' => [['id' => 'in a list']]];",
        ];
    }

    public function test_every_setting_arrives_after_config_cache(): void
    {
        $this->needsASidecar();
        $sidecar = new SidecarProcess(
            [['label' => 'dice', 'url' => FakeServer::url()], ['label' => 'from_sidecar', 'url' => FakeServer::url() . '?second']],
            FakeLlm::forSidecar() + ['PILLION__TOOLS__GET_WEATHER' => '{provider = "mock"}'],
        );
        try {
            $settings = SettingsProbe::settings($this->folder->path, FakeServer::url(), $sidecar->socket);
            $stores = "'stores' => ['array' => ['driver' => 'array'], 'probe' => ['driver' => 'array']]";
            $connection = "['driver' => 'sqlite', 'database' => ':memory:', 'prefix' => '']";
            foreach ([
                'pillion' => var_export($settings, true),
                'cache' => "['default' => 'array', 'prefix' => '', $stores]",
                'database' => "['default' => 'sqlite', 'connections' => ['sqlite' => $connection, 'second' => $connection]]",
                'logging' => "['default' => 'single', 'channels' => ['single' => ['driver' => 'errorlog'],"
                    . " 'probe' => ['driver' => 'single', 'name' => 'probe', 'path' => storage_path('logs/probe.log')]]]",
            ] as $file => $value) {
                $this->folder->write("config/$file.php", "<?php return $value;");
            }
            Laravel::artisan($this->folder->path, 'config:cache');
            $this->folder->write('config/pillion.php', '<?php return [];');
            @unlink($this->folder->path . '/.env');
            $migration = var_export(glob(__DIR__ . '/../database/migrations/*.php')[0], true);
            $folder = var_export($this->folder->path, true);
            $observed = Laravel::evaluate($this->folder->path, <<<PHP
                foreach (['Probes/Probed', 'Listed/Listed'] as \$class) {
                    require $folder . "/app/\$class.php";
                }
                (require $migration)->up();
                return Pillion\\Laravel\\Tests\\Support\\SettingsProbe::observe();
                PHP);
        } finally {
            $sidecar->stop();
        }
        $expected = [
            'servers' => ['dice', 'gone'],
            'tools.builtins' => [true, false],
            'default_model' => ['anthropic', ['calculator']],
            'chat.in' => true,
            'chat.options' => 'Be brief',
            'approvals.tools' => 'approval_required',
            'approvals.driver' => 'DatabaseApprovalStore',
            'sidecar.socket' => [$sidecar->socket, $sidecar->socket],
            'sidecar.timeout' => '0.5s',
            'cache.retry_after' => [890],
            'cache.ttl' => [780],
        ];
        foreach (['tools.discover', 'tools.classes', 'tools.services', 'tools.aliases', 'models', 'model_lists', 'cache.store', 'sidecar.register', 'disconnect_on_terminate', 'approvals.store'] as $key) {
            $expected[$key] = true;
        }
        foreach ($observed as $key => $value) {
            self::assertEquals($expected[$key] ?? Arr::get($settings, $key), $value, $key);
        }
        self::assertSame([], array_diff(self::keys(require __DIR__ . '/../config/pillion.php'), array_keys($observed)), 'settings without a probe');
    }

    /**
     * @param array<string, mixed> $settings
     *
     * @return list<string> with the names of groups: `limits.timeout`
     */
    private static function keys(array $settings): array
    {
        $keys = [];
        foreach ($settings as $key => $value) {
            $isGroup = is_array($value) && !in_array($key, ['servers', 'models', 'default_model'], true);
            array_push($keys, ...($isGroup ? array_map(fn (string $name) => "$key.$name", array_keys($value)) : [$key]));
        }
        return $keys;
    }
}
