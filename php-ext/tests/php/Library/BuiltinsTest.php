<?php

declare(strict_types=1);

namespace Pillion\Tests\Library;

use Pillion\Exception\UnavailableException;
use Pillion\Sidecar;
use Pillion\Tests\Support\Process;
use Pillion\Tests\Support\SidecarProcess;
use Pillion\ToolRegistry;
use PHPUnit\Framework\TestCase;

/** @group library */
final class BuiltinsTest extends TestCase
{
    public function testTheDefinitionsMatchTheSidecar(): void
    {
        $registry = ToolRegistry::withBuiltins();
        $sidecar = new Sidecar();
        $own = array_filter($sidecar->listTools(), fn (array $tool) => !isset($tool['server_label']));
        // Tools that use services are only in the sidecar.
        $own = array_values(array_filter($own, fn (array $tool) => $registry->has($tool['name'])));
        self::assertSame(array_column($own, 'name'), array_keys($registry->getAll()));
        foreach ($own as $nth => $tool) {
            self::assertSame($tool['category'], $registry->get($tool['name'])->getDefinition()->category);
            self::assertEquals($sidecar->getSchemas($tool['category'])[0], $registry->getSchemas()[$nth]);
        }
    }

    public function testD6ToolsOfServicesAreConfiguredInTheSidecar(): void
    {
        $registry = ToolRegistry::withBuiltins(['get_weather' => [], 'web_search' => []]);
        self::assertSame(['calculator', 'get_time', 'roll_dice', 'get_weather', 'web_search'], array_keys($registry->getAll()));
        self::assertSame('unavailable', $registry->execute('web_search', ['query' => 'x'], 'call_1')->errorCode);
        self::assertSame('unavailable', $registry->execute('get_weather', ['location' => 'x'], 'call_2')->errorCode);
        $process = new SidecarProcess(environment: ['PILLION__TOOLS__GET_WEATHER' => '{provider = "mock"}']);
        $sidecar = array_column(array_column((new Sidecar($process->socket))->getSchemas('information'), 'function'), null, 'name');
        self::assertEquals($sidecar['get_weather']['parameters'], $registry->getSchemas('information')[0]['function']['parameters']);
        $process->stop();
        $this->expectException(UnavailableException::class);
        $this->expectExceptionMessage("The sidecar runs 'get_weather'");
        ToolRegistry::withBuiltins(['get_weather' => ['provider' => 'mock']]);
    }

    public function testD7ToolsThatTheSidecarDoesNotOfferAreHidden(): void
    {
        $services = ['get_weather' => [], 'web_search' => []];
        $model = ['function_calling' => true];
        $registry = ToolRegistry::withBuiltins($services);
        self::assertSame(['calculator', 'get_time', 'roll_dice'], array_keys($registry->getAvailableForModel($model)));
        $dropped = ['get_weather' => 'isEnabledForModel() returned false', 'web_search' => 'isEnabledForModel() returned false'];
        self::assertSame($dropped, $registry->getDroppedForModel($model));
        self::assertNotContains('web_search', array_column($registry->getDefinitionsForModel($model), 'name'));

        $before = (string) getenv('PILLION_SOCKET');
        $sidecar = new SidecarProcess(environment: ['PILLION__TOOLS__WEB_SEARCH' => '{provider = "mock"}']);
        try {
            putenv("PILLION_SOCKET=$sidecar->socket");
            self::assertArrayHasKey('web_search', $registry->getAvailableForModel($model));
            self::assertSame([], $registry->getAvailableForModel([]));
            putenv('PILLION_SOCKET=/nonexistent/pillion.sock');
            self::assertSame(['calculator', 'get_time', 'roll_dice'], array_keys($registry->getAvailableForModel($model)));
        } finally {
            putenv("PILLION_SOCKET=$before");
            $sidecar->stop();
        }
    }

    public function testTheSidecarFillsInOmittedArguments(): void
    {
        $before = (string) getenv('PILLION_SOCKET');
        $sidecar = new SidecarProcess(environment: ['PILLION__TOOLS__GET_TIME__TIMEZONE' => 'Asia/Tokyo']);
        try {
            putenv("PILLION_SOCKET=$sidecar->socket");
            $iso = fn (array $arguments) => ToolRegistry::withBuiltins()->execute('get_time', $arguments, 'call_1')->data['iso'];
            self::assertStringEndsWith('+09:00', $iso([]));
            self::assertStringEndsWith('+09:00', $iso(['format' => 'date']));
            self::assertStringEndsWith('+00:00', $iso(['timezone' => 'UTC']));
        } finally {
            putenv("PILLION_SOCKET=$before");
            $sidecar->stop();
        }
    }

    public function testWithoutASidecarCallsFail(): void
    {
        $code = <<<'PHP'
            putenv('PILLION_SOCKET=/nonexistent/pillion.sock');
            $registry = Pillion\ToolRegistry::withBuiltins();
            $registry->register(new Pillion\ToolDefinition('mine', 'd'), fn () => 'works');
            $calls = [['id' => '1', 'name' => 'calculator', 'arguments' => ['expression' => '1']], ['id' => '2', 'name' => 'mine']];
            foreach ((new Pillion\ToolExecutor($registry))->executeParallel($calls) as $result) {
                echo $result->errorCode ?? 'fine', ' ', $result->toMessage(), "\n";
            }
            PHP;
        self::assertSame(
            str_repeat("unavailable Error: The sidecar is not running: no process listens on /nonexistent/pillion.sock; start it with `pillion serve`\n", 2),
            Process::php($code)['output'],
        );
    }
}
