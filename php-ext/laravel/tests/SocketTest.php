<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use Illuminate\Container\Container;
use Illuminate\Contracts\Foundation\Application;
use Illuminate\Support\Facades\Facade;
use PHPUnit\Framework\Attributes\DataProvider;
use Pillion\Laravel\Console\AboutSection;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Tests\Support\Folder;
use Pillion\Laravel\Tests\Support\Laravel;
use Pillion\Laravel\Tests\Support\Sidecar as SharedSidecar;
use Pillion\ProviderFormat;
use Pillion\Sidecar;
use Pillion\Tests\Support\FakeServer;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use Pillion\Worker;

/** `pillion.sidecar.socket` applies to every class, without an environment variable. */
final class SocketTest extends TestCase
{
    protected function setUp(): void
    {
        parent::setUp();
        $this->needsASidecar();
        self::assertFalse(getenv('PILLION_SOCKET'));
    }

    /** @return array<string, array{bool}> */
    public static function sources(): array
    {
        return ['a variable in .env' => [true], 'a literal' => [false]];
    }

    /** @dataProvider sources */
    #[DataProvider('sources')]
    public function test_calls_use_the_socket_of_a_cached_configuration(bool $isVariable): void
    {
        $socket = SharedSidecar::socket();
        $setting = $isVariable ? "env('PILLION_SOCKET')" : var_export($socket, true);
        $servers = var_export(['dice' => ['url' => FakeServer::url()]], true);
        $this->folder->write('config/pillion.php', "<?php return ['sidecar' => ['socket' => $setting], 'servers' => $servers];");
        $this->folder->write('.env', $isVariable ? "PILLION_SOCKET=$socket" : '');
        Laravel::artisan($this->folder->path, 'config:cache');
        unlink($this->folder->path . '/.env');

        $seen = Laravel::evaluate($this->folder->path, <<<'PHP'
            use Pillion\Laravel\Facades\Pillion as Facade;
            $registry = new Pillion\ToolRegistry();
            $registry->register(new Pillion\ToolDefinition('own', 'A test'), fn () => 'here');
            return [
                'variable' => getenv('PILLION_SOCKET') . ($_ENV['PILLION_SOCKET'] ?? ''),
                'sockets' => [
                    (new Pillion\Sidecar())->getSocketPath(),
                    Facade::sidecar()->getSocketPath(),
                    (new Pillion\Worker())->getSocketPath(),
                    app(Pillion\Laravel\Console\AboutSection::class)->lines()['Sidecar'],
                ],
                'explicit' => (new Pillion\Sidecar('/explicit.sock'))->getSocketPath(),
                'calls' => [
                    Facade::call('calculator', ['expression' => '6 * 7'])->toMessage(),
                    Facade::call('dice_roll', ['dice' => '1d20'])->toMessage(),
                    (new Pillion\ToolExecutor($registry))->execute(['id' => '1', 'name' => 'own'])->toMessage(),
                    count(Facade::server('dice')->listTools()) > 0,
                    (new Pillion\Sidecar())->callTool('calculator', ['expression' => '6 * 7'])['result'],
                ],
                'formats' => count(Pillion\ProviderFormat::tools('anthropic', [new Pillion\ToolDefinition('own', 'A test')])),
            ];
            PHP);
        self::assertSame('', $seen['variable']);
        self::assertSame(array_fill(0, 4, $socket), $seen['sockets']);
        self::assertSame('/explicit.sock', $seen['explicit']);
        self::assertEquals(['42', '{"total":15,"rolls":[15]}', 'here', true, 42], $seen['calls']);
        self::assertSame(1, $seen['formats']);
        self::assertStringContainsString('42', Laravel::artisan($this->folder->path, 'pillion:call', 'calculator', '{"expression": "6 * 7"}'));
    }

    public function test_an_empty_setting_is_the_default_socket(): void
    {
        foreach (['', null] as $empty) {
            $this->configure(['sidecar.socket' => $empty]);
            self::assertStringEndsWith('/pillion/pillion.sock', (new Sidecar())->getSocketPath());
            self::assertStringEndsWith('/pillion/pillion.sock', (new Worker())->getSocketPath());
        }
    }

    public function test_a_change_at_run_time_applies_to_the_next_call(): void
    {
        $executor = new ToolExecutor($registry = new ToolRegistry());
        $registry->register(new ToolDefinition('own', 'A test'), fn () => 'here');
        $explicit = new Sidecar(SharedSidecar::socket());
        foreach ([SharedSidecar::socket(), '/nowhere/late.sock', SharedSidecar::socket()] as $socket) {
            $this->configure(['sidecar.socket' => $socket]);
            $this->assertUses($socket, $executor);
            self::assertTrue($explicit->isAvailable());
            self::assertSame(SharedSidecar::socket(), $explicit->getSocketPath());
        }
    }

    public function test_each_application_of_a_process_has_its_own_socket(): void
    {
        $executor = new ToolExecutor($registry = new ToolRegistry());
        $registry->register(new ToolDefinition('own', 'A test'), fn () => 'here');
        $this->configure(['sidecar.socket' => SharedSidecar::socket()]);
        $files = ['config/pillion.php' => "<?php return ['sidecar' => ['socket' => '/nowhere/other.sock']];"];
        foreach (['composer.json', 'vendor/composer/installed.json', 'config/app.php', 'config/cache.php', 'config/logging.php', 'config/database.php', 'config/queue.php', 'config/session.php', 'config/auth.php'] as $file) {
            $files[$file] = (string) file_get_contents("{$this->folder->path}/$file");
        }
        $folder = new Folder($files);
        try {
            $other = Laravel::application($folder->path);
            restore_error_handler();
            restore_exception_handler();
            foreach ([[$other, '/nowhere/other.sock'], [$this->app, SharedSidecar::socket()], [$other, '/nowhere/other.sock']] as [$app, $socket]) {
                self::become($app);
                $this->assertUses($socket, $executor);
            }
        } finally {
            self::become($this->app);
            $folder->remove();
        }
    }

    /** Without the extension, calls run in the sidecar. */
    private function assertUses(string $socket, ToolExecutor $executor): void
    {
        self::assertSame($socket, (new Sidecar())->getSocketPath());
        self::assertSame($socket, Pillion::sidecar()->getSocketPath());
        self::assertSame($socket, (new Worker())->getSocketPath());
        self::assertSame($socket, Container::getInstance()->make(AboutSection::class)->lines()['Sidecar']);
        $runsHere = extension_loaded('pillion') || $socket === SharedSidecar::socket();
        $messages = [
            $executor->execute(['id' => '1', 'name' => 'own'])->toMessage(),
            Pillion::call('calculator', ['expression' => '6 * 7'])->toMessage(),
        ];
        foreach ($messages as $index => $message) {
            $runsHere ? self::assertSame(['here', '42'][$index], $message) : self::assertStringContainsString("no process listens on $socket", $message);
        }
        try {
            ProviderFormat::tools('anthropic', [new ToolDefinition('own' . hrtime(true), 'A test')]);
            self::assertTrue($runsHere);
        } catch (\Pillion\Exception\UnavailableException $e) {
            self::assertFalse($runsHere);
            self::assertStringContainsString($socket, $e->getMessage());
        }
    }

    private static function become(Application $app): void
    {
        Container::setInstance($app);
        Facade::clearResolvedInstances();
        Facade::setFacadeApplication($app);
    }
}
