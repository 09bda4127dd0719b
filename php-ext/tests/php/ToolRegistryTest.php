<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\DmcpTool;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\TransportException;
use Pillion\MCPServerTool;
use Pillion\MCPSSEClient;
use Pillion\MCPToolInterface;
use Pillion\Tests\Support\Cache;
use Pillion\Tests\Support\Dispatcher;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Upper;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use PHPUnit\Framework\TestCase;

final class ToolRegistryTest extends TestCase
{
    private const MCP_MODEL = ['function_calling' => true, 'mcp' => true];

    private static function definition(string $name, string $category = 'general'): ToolDefinition
    {
        return new ToolDefinition($name, 'A test', category: $category);
    }

    private static function dmcp(): DmcpTool
    {
        return new DmcpTool(['server_label' => 'dmcp', 'server_url' => 'http://127.0.0.1:1/sse']);
    }

    public function testB1ADuplicateIsRejectedUnlessReplaceIsSet(): void
    {
        $registry = new ToolRegistry();
        $registry->register(new Upper());
        $e = Expect::exception(InvalidInputException::class, fn () => $registry->register(new Upper()));
        self::assertSame("Tool 'upper' already registered", $e->getMessage());
        $second = new Upper();
        $registry->register($second, replace: true);
        self::assertSame($second, $registry->get('upper'));
        self::assertCount(1, $registry);
    }

    public function testAReplacedEngineToolStillWorks(): void
    {
        $registry = ToolRegistry::withBuiltins();
        $calculator = $registry->get('calculator');
        $wrapper = fn (array $arguments) => 'wrapped ' . $calculator->execute($arguments, 'inner')->result;
        $registry->register($calculator->getDefinition(), $wrapper, replace: true);
        self::assertSame('wrapped 42', $registry->execute('calculator', ['expression' => '6 * 7'], 'outer')->result);
        self::assertSame('42', $calculator->execute(['expression' => '6 * 7'], 'c')->result);
        $registry->unregister('calculator');
        self::assertSame('invalid_input', $calculator->execute(['expression' => 7], 'c')->errorCode);
    }

    public function testB1AReplacedToolKeepsItsPlaceAndTheNewOneRuns(): void
    {
        $registry = new ToolRegistry();
        $registry->register(self::definition('a'), fn () => 'old');
        $registry->register(self::definition('b'), fn () => 'b');
        $registry->register(self::definition('a'), fn () => 'new', replace: true);
        self::assertSame(['a', 'b'], array_keys($registry->getAll()));
        self::assertSame('new', $registry->execute('a', [], '1')->result);
    }

    public function testB2LookUpsAndRemoval(): void
    {
        $registry = new ToolRegistry();
        $registry->register(self::definition('one', 'math'), fn () => 1);
        $registry->register(self::definition('two', 'fun'), fn () => 2);
        $registry->register(self::definition('three', 'math'), fn () => 3);
        self::assertSame(['math', 'fun'], $registry->categories());
        self::assertSame(['one', 'two', 'three'], array_keys($registry->getAll()));
        self::assertSame(['one', 'three'], array_map(
            fn (array $schema) => $schema['function']['name'],
            $registry->getSchemas('math'),
        ));
        self::assertTrue($registry->has('one'));
        self::assertInstanceOf(ToolInterface::class, $registry->get('one'));
        self::assertSame($registry->get('one'), $registry->get('one'));
        self::assertFalse($registry->unregister('nope'));
        self::assertTrue($registry->unregister('one'));
        self::assertFalse($registry->has('one'));
        self::assertNull($registry->get('one'));
        self::assertSame(['two', 'three'], array_keys($registry->getAll()));
    }

    public function testB3BuiltinsAreRegistered(): void
    {
        $registry = ToolRegistry::withBuiltins();
        self::assertSame(['calculator', 'get_time', 'roll_dice'], array_keys($registry->getAll()));
        $result = $registry->get('calculator')->execute(['expression' => '2 + 2'], 'c1');
        self::assertTrue($result->success);
        self::assertSame('4', $result->result);
        self::assertSame('c1', $result->toolCallId);
    }

    public function testB4MCPToolsAreListedSeparately(): void
    {
        $registry = new ToolRegistry();
        $registry->register(new Upper());
        $registry->register(self::dmcp());
        self::assertSame(['dmcp_roll_dice'], array_keys($registry->getMCPTools()));
        self::assertContainsOnlyInstancesOf(MCPToolInterface::class, $registry->getMCPTools());
        self::assertSame(['upper', 'dmcp_roll_dice'], array_keys($registry->getAll()));
    }

    public function testB4AvailableForProviderAsksEachTool(): void
    {
        $registry = ToolRegistry::withBuiltins();
        $registry->register(new Upper());
        self::assertArrayHasKey('upper', $registry->getAvailableForProvider('App\OpenAiProvider'));
        self::assertArrayNotHasKey('upper', $registry->getAvailableForProvider('App\GwdgProvider'));
        self::assertArrayHasKey('calculator', $registry->getAvailableForProvider('App\GwdgProvider'));
    }

    public function testB4AWholeMCPServer(): void
    {
        $registry = ToolRegistry::withBuiltins();
        $before = ini_set('pillion.log_level', 'off');
        $entry = ['server_label' => 'fake', 'server_url' => FakeServer::url()];
        if (extension_loaded('pillion')) {
            $entry['api_key'] = 'sekrit';
        }
        $names = $registry->registerMcpServer($entry);
        self::assertSame(['roll', 'echo', 'slow'], $names, 'F6: the illegal name is left out');
        self::assertSame($names, array_keys($registry->getMCPTools()));
        $tool = $registry->get('roll');
        self::assertInstanceOf(MCPServerTool::class, $tool);
        self::assertSame(['dice'], $tool->getDefinition()->parameters['required']);
        self::assertSame('mcp', $tool->getMCPCategory());
        self::assertTrue($tool->isServerAvailable());
        self::assertSame(['type' => 'mcp', 'server_label' => 'fake', 'server_url' => FakeServer::url()], $tool->getMCPServerConfig());
        self::assertSame(['total' => 15, 'rolls' => [15]], $tool->execute(['dice' => '1d20'], 'c')->result);
        self::assertSame('invalid_input', $tool->execute([], 'c')->errorCode);
        self::assertFalse($tool->isEnabledForModel(['function_calling' => true]));
        self::assertTrue($tool->isEnabledForModel(self::MCP_MODEL));

        $registry->registerMcpServer(new MCPSSEClient(FakeServer::url()), prefix: 'fake_');
        self::assertTrue($registry->has('fake_roll'));
        self::assertSame(15, $registry->execute('fake_roll', ['dice' => '1d20'], 'c')->result['total']);
        ini_set('pillion.log_level', (string) $before);
    }

    public function testN2LegacyKeysOfAnEntryAreAccepted(): void
    {
        $before = ini_set('pillion.log_level', 'off');
        $entry = ['type' => 'mcp', 'server_label' => 'fake', 'server_url' => FakeServer::url()];
        $registry = new ToolRegistry();
        $registry->registerMcpServer($entry + ['server_description' => 'Rolls dice', 'require_approval' => 'never']);
        $config = $registry->get('roll')->getMCPServerConfig();
        self::assertSame($entry, array_intersect_key($config, $entry));
        $call = ['id' => 'c', 'name' => 'roll', 'arguments' => ['dice' => '1d20']];
        self::assertSame(15, (new ToolExecutor($registry))->execute($call)->result['total']);
        $asking = new ToolExecutor($registry, ['approvals' => ['servers' => ['fake' => 'always-ask']]]);
        self::assertSame('approval_required', $asking->execute($call)->errorCode, 'it is known by its label');
        ini_set('pillion.log_level', (string) $before);
    }

    /** @group extension */
    public function testL1ServersWithoutALabelAreDistinguishedByUrl(): void
    {
        $registry = new ToolRegistry();
        $registry->registerMcpServer(['server_url' => FakeServer::url()], prefix: 'a_');
        $other = str_replace('/sse', '/everything', FakeServer::url());
        $registry->registerMcpServer(['server_url' => "$other?key=sekrit"], prefix: 'b_');
        self::assertSame(FakeServer::url(), $registry->get('a_roll')->getMCPServerConfig()['server_label']);
        self::assertStringNotContainsString('sekrit', json_encode($registry->get('b_roll')->getMCPServerConfig()));
        $executor = new ToolExecutor($registry, ['approvals' => ['servers' => [FakeServer::url() => 'always-ask']]]);
        $codes = [];
        foreach (['a_roll', 'b_roll'] as $name) {
            $codes[] = $executor->execute(['id' => '1', 'name' => $name, 'arguments' => ['dice' => '1d6']])->errorCode;
        }
        self::assertSame(['approval_required', null], $codes);
    }

    public function testB1AServerWhoseNamesAreTakenRegistersNothing(): void
    {
        $registry = new ToolRegistry();
        $registry->register(self::definition('slow'), fn () => 'mine');
        $before = ini_set('pillion.log_level', 'off');
        $e = Expect::exception(InvalidInputException::class, fn () => $registry->registerMcpServer(['server_url' => FakeServer::url()]));
        self::assertSame("Tool 'slow' already registered", $e->getMessage());
        self::assertCount(1, $registry);
        $registry->registerMcpServer(['server_url' => FakeServer::url()], replace: true);
        ini_set('pillion.log_level', (string) $before);
        self::assertCount(3, $registry);
        self::assertInstanceOf(MCPServerTool::class, $registry->get('slow'));
    }

    /** @group extension */
    public function testAnUnreachableServerThrows(): void
    {
        Expect::exception(TransportException::class, fn () => (new ToolRegistry())->registerMcpServer(['server_url' => 'http://127.0.0.1:1/sse']));
    }

    public function testB5TheErrorForAnUnknownToolNamesIt(): void
    {
        $result = (new ToolRegistry())->execute('nope', [], 'c1');
        self::assertFalse($result->success);
        self::assertSame("Tool 'nope' is not registered", $result->error);
        self::assertSame(['error' => 'Tool not found'], $result->result);
        self::assertSame('not_found', $result->errorCode);
    }

    public function testH2AllBuiltinsAndNoMCPToolWithoutTheFlag(): void
    {
        $registry = ToolRegistry::withBuiltins();
        $registry->register(self::dmcp());
        $names = array_keys($registry->getAvailableForModel(['function_calling' => true]));
        self::assertSame(['calculator', 'get_time', 'roll_dice'], $names);
        self::assertSame(
            ['dmcp_roll_dice' => "model has no 'mcp' flag"],
            $registry->getDroppedForModel(['function_calling' => true]),
        );
    }

    public function testH2OnlyTheEnabledToolIsListed(): void
    {
        $registry = ToolRegistry::withBuiltins();
        $registry->register(self::dmcp());
        $model = ['function_calling' => true, 'mcp' => true, 'enabled_tools' => ['dmcp_roll_dice']];
        self::assertSame(['dmcp_roll_dice'], array_keys($registry->getAvailableForModel($model)));
        $definitions = $registry->getDefinitionsForModel(['id' => 'm', 'tools' => $model]);
        self::assertCount(1, $definitions);
        self::assertSame('dmcp_roll_dice', $definitions[0]->name);
        self::assertSame([], $registry->getAvailableForModel(['mcp' => true]));
    }

    public function testH2AnMCPToolWithoutServerIsSkipped(): void
    {
        $registry = new ToolRegistry();
        $registry->register(new DmcpTool(['server_url' => '']));
        self::assertSame([], $registry->getDefinitionsForModel(self::MCP_MODEL));
        self::assertSame(['dmcp_roll_dice' => 'MCP server has no URL'], $registry->getDroppedForModel(self::MCP_MODEL));
    }

    public function testH2ModelsMayBeObjects(): void
    {
        $registry = ToolRegistry::withBuiltins();
        $asked = new class () {
            public function getTools(): array
            {
                return ['function_calling' => true, 'enabled_tools' => ['get_time']];
            }
        };
        self::assertSame(['get_time'], array_keys($registry->getAvailableForModel($asked)));
        $public = (object) ['id' => 'm', 'tools' => ['function_calling' => true]];
        self::assertCount(3, $registry->getAvailableForModel($public));
    }

    public function testH2NullDoesNotEnableAllTools(): void
    {
        foreach ([['function_calling' => true, 'enabled_tools' => null], ['tools' => ['function_calling' => true, 'enabled_tools' => null]]] as $model) {
            $e = Expect::exception(InvalidInputException::class, fn () => ToolRegistry::withBuiltins()->getAvailableForModel($model));
            self::assertStringContainsString('enabled_tools must be a list of names, not null', $e->getMessage());
        }
    }

    public function testH2AWrongFlagIsNamed(): void
    {
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage('tools.mcp: expected a boolean');
        ToolRegistry::withBuiltins()->getAvailableForModel(['function_calling' => true, 'mcp' => 'maybe']);
    }

    public function testH3BuiltinToolsHaveTheirOtherNames(): void
    {
        $registry = ToolRegistry::withBuiltins(['get_weather' => []]);
        foreach (['time_tool' => 'get_time', 'weather_tool' => 'get_weather', 'weather' => 'get_weather'] as $alias => $name) {
            self::assertSame($name, $registry->get($alias)?->getName());
        }
        self::assertTrue($registry->execute('time_tool', [], '1')->success);
        self::assertFalse($registry->has('search_tool'), 'its tool is not there');
        self::assertTrue(ToolRegistry::withBuiltins(['web_search' => []])->has('search_tool'));
        self::assertSame(['calculator', 'get_time', 'roll_dice', 'get_weather'], array_keys($registry->getAll()));
        $registry->register(self::definition('weather'), fn () => 'mine');
        self::assertSame('mine', $registry->execute('weather', [], '1')->result, 'a tool of that name wins');
        self::assertFalse((new ToolRegistry())->has('time_tool'));
    }

    public function testH3AnAliasFindsItsTool(): void
    {
        $registry = ToolRegistry::withBuiltins();
        $registry->alias('clock', 'get_time');
        self::assertSame($registry->get('get_time'), $registry->get('clock'));
        $registry->alias('time_tool', 'roll_dice');
        self::assertSame($registry->get('roll_dice'), $registry->get('time_tool'), 'an alias may be moved');
        self::assertTrue($registry->execute('clock', [], '1')->success);
        Expect::exception(InvalidInputException::class, fn () => $registry->alias('x', 'nope'));
    }

    public function testA3SchemasKeepEmptyMaps(): void
    {
        $registry = new ToolRegistry();
        $registry->register(self::definition('ping'), fn () => 'pong');
        self::assertSame(
            '[{"type":"function","function":{"name":"ping","description":"A test",'
            . '"parameters":{"type":"object","properties":{},"required":[]}}}]',
            json_encode($registry->getSchemas()),
        );
    }

    public function testAToolWhoseDefinitionHasAnotherNameIsRefused(): void
    {
        $odd = new class () extends Upper {
            public function getName(): string
            {
                return 'lower';
            }
        };
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage("Tool 'lower' must have a definition with the same name, not 'upper'");
        (new ToolRegistry())->register($odd);
    }

    public function testADefinitionNeedsACallable(): void
    {
        $this->expectException(\TypeError::class);
        $this->expectExceptionMessage('Argument #2 ($handler) must be of type callable');
        (new ToolRegistry())->register(self::definition('x'));
    }

    public function testAnExceptionOfGetDefinitionPassesThrough(): void
    {
        $broken = new class () extends Upper {
            public function getDefinition(): ToolDefinition
            {
                throw new \DomainException('not today');
            }
        };
        $registry = new ToolRegistry();
        $e = Expect::exception(\DomainException::class, fn () => $registry->register($broken));
        self::assertSame('not today', $e->getMessage());
        self::assertCount(0, $registry);
    }

    public function testToolsUseTheCacheAndTheDispatcherOfTheirClient(): void
    {
        $cache = new Cache();
        $dispatcher = new Dispatcher();
        foreach ([MCPSSEClient::class, \Pillion\McpClient::class, \Pillion\McpClient::class] as $class) {
            $client = (new $class(FakeServer::url()))->setCache($cache)->setEventDispatcher($dispatcher);
            $registry = new ToolRegistry();
            self::assertSame(['roll', 'echo', 'slow'], $registry->registerMcpServer($client));
            self::assertSame(['total' => 15, 'rolls' => [15]], $registry->execute('roll', ['dice' => '2d6'], 'c')->result);
        }
        $fromCache = array_column($dispatcher->events(\Pillion\Event\ToolsListed::class), 'fromCache');
        self::assertTrue(end($fromCache));
        self::assertFalse($fromCache[0]);
    }
}
