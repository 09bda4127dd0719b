<?php

declare(strict_types=1);

namespace Pillion\Tests;

use App\Services\AI\Tools\Implementations\MyMcpTool;
use Pillion\DmcpTool;
use Pillion\Exception\InvalidInputException;
use Pillion\MCPSSEClient;
use Pillion\MCPToolAdapter;
use Pillion\MCPToolInterface;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\Process;
use Pillion\ToolDefinition;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Pillion\ToolResult;
use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/../../../php-examples/hawki/MyMcpTool.php';

final class MCPToolAdapterTest extends TestCase
{
    private const MODEL = ['function_calling' => true, 'mcp' => true];

    /** @group extension */
    public function testJ2TheLegacySampleRuns(): void
    {
        $tool = new MyMcpTool(['server_url' => FakeServer::url()]);
        self::assertInstanceOf(MCPToolInterface::class, $tool);
        $result = $tool->execute(['param1' => 'x'], 'c1');
        self::assertTrue($result->success);
        self::assertSame(['param1' => 'x'], $result->result['arguments']);

        $unreachable = new MyMcpTool(['server_url' => 'http://127.0.0.1:1/sse']);
        $result = $unreachable->execute(['param1' => 'x'], 'c1');
        self::assertFalse($result->success);
        self::assertStringStartsWith('MCP SSE request failed: ', $result->error);
        self::assertSame(['error' => $result->error], $result->result);
    }

    public function testJ2TheLegacySampleWorksWithoutAServer(): void
    {
        $result = (new MyMcpTool([]))->execute(['param1' => 'x'], 'c1');
        self::assertSame('Server unavailable', $result->error);
        self::assertSame(['error' => 'MCP server not available'], $result->result);
    }

    public function testJ2TheLegacySampleDiffersOnlyInItsUseLines(): void
    {
        $source = (string) file_get_contents((new \ReflectionClass(MyMcpTool::class))->getFileName());
        preg_match_all('/^use (.+);$/m', $source, $uses);
        self::assertSame(
            ['Pillion\MCPToolAdapter', 'Pillion\MCPSSEClient', 'Pillion\ToolDefinition', 'Pillion\ToolResult'],
            $uses[1],
        );
    }

    public function testJ2ASubclassReadsTheProtectedProperties(): void
    {
        $tool = self::tool(['server_url' => FakeServer::url(), 'server_label' => 'fake']);
        self::assertSame(['total' => 15, 'rolls' => [15]], $tool->execute(['dice' => '1d20'], 'c')->result);
        self::assertTrue($tool->isServerAvailable());
        self::assertSame(['server_url' => FakeServer::url(), 'server_label' => 'fake'], $tool->getMCPServerConfig());
        self::assertTrue($tool->isAvailableForProvider('Any'));
    }

    public function testJ2WithoutAUrlThereIsNoClient(): void
    {
        foreach ([[], ['server_url' => ''], ['server_url' => '  ']] as $config) {
            $tool = self::tool($config);
            self::assertFalse($tool->isServerAvailable());
            self::assertNull($tool->client());
        }
    }

    /** The entry of HAWKI's service provider. */
    private const ENTRY = [
        'type' => 'mcp',
        'class' => MyMcpTool::class,
        'server_label' => 'my_mcp',
        'server_description' => 'Description of my MCP server',
        'server_url' => 'https://my-mcp-server.com/sse',
        'require_approval' => 'always',
    ];

    public function testN2ALegacyEntryCreatesATool(): void
    {
        $registry = new ToolRegistry();
        $registry->register(new (self::ENTRY['class'])(self::ENTRY));
        $tool = $registry->getMCPTools()['my_mcp_tool'];
        self::assertSame(self::ENTRY, $tool->getMCPServerConfig());
        self::assertTrue($tool->isServerAvailable());
        self::assertSame(['my_mcp_tool'], array_keys($registry->getAvailableForModel(self::MODEL)));
    }

    public function testJ2TheAdapterIsAbstract(): void
    {
        $class = new \ReflectionClass(MCPToolAdapter::class);
        self::assertTrue($class->isAbstract());
        self::assertTrue($class->implementsInterface(ToolInterface::class));
        foreach (['serverConfig', 'serverAvailable', 'client'] as $property) {
            self::assertTrue($class->getProperty($property)->isProtected());
        }
        Expect::exception(\Error::class, fn () => $class->newInstance([]), 'Cannot instantiate abstract class');
    }

    public function testABadUrlIsRejectedAtOnce(): void
    {
        Expect::exception(InvalidInputException::class, fn () => self::tool(['server_url' => 'not-a-url']));
    }

    /** @group extension */
    public function testE1TheEntryCarriesTimeoutAndKey(): void
    {
        $tool = self::tool(['server_url' => FakeServer::url(), 'api_key' => 'sekrit', 'timeout' => 2.5]);
        self::assertSame('Bearer sekrit', $tool->client()->callTool('connection')['authorization']);
        Expect::exception(InvalidInputException::class, fn () => self::tool(['server_url' => FakeServer::url(), 'timeout' => 'soon']));
    }

    public function testADumpShowsNoCredential(): void
    {
        $entry = [
            'server_url' => 'https://dice.example/mcp?token=s3cr3t',
            'server_label' => 'dice',
            'timeout' => 5,
            'options' => ['transport' => 'http', 'headers' => ['x-mine' => 's3cr3t'], 'token_in_query' => true],
            'require_approval' => 'never',
            'tenant' => ['name' => 'acme', 'apiToken' => 's3cr3t'],
        ];
        $tools = [new DmcpTool(['api_key' => 's3cr3t'] + $entry), self::tool(['authentication' => ['type' => 'bearer', 'token' => 's3cr3t']] + $entry)];
        foreach ($tools as $tool) {
            ob_start();
            var_dump($tool);
            $dump = ob_get_clean();
            foreach ([$dump, print_r($tool, true), print_r([$tool], true)] as $shown) {
                self::assertStringNotContainsString('s3cr3t', $shown);
                foreach (['https://dice.example/mcp', 'serverConfig', 'transport', 'acme', '[redacted]', 'serverAvailable', 'client'] as $stays) {
                    self::assertStringContainsString($stays, $shown);
                }
            }
            self::assertStringContainsString('["serverConfig":protected]=>', $dump);
            self::assertStringContainsString("[\"token_in_query\"]=>\n      bool(true)", $dump);
            self::assertSame('https://dice.example/mcp?token=s3cr3t', $tool->getMCPServerConfig()['server_url']);
        }
    }

    public function testH2OnlyModelsWithTheMcpFlagSeeIt(): void
    {
        $tool = self::tool(['server_url' => FakeServer::url()]);
        self::assertTrue($tool->isEnabledForModel(self::MODEL));
        self::assertFalse($tool->isEnabledForModel(['function_calling' => true]));
        self::assertFalse($tool->isEnabledForModel(['mcp' => true]));
        self::assertTrue($tool->isEnabledForModel(self::MODEL + ['enabled_tools' => ['mine']]));
        self::assertFalse($tool->isEnabledForModel(self::MODEL + ['enabled_tools' => ['other']]));
    }

    public function testASubclassThatSkipsTheConstructorIsOnlyUnavailable(): void
    {
        $tool = new class () extends DmcpTool {
            public function __construct()
            {
            }
        };
        self::assertFalse($tool->isServerAvailable());
        self::assertSame('Server not configured', $tool->execute(['dice' => '1d6'], 'c')->error);
    }

    public function testD4DmcpRollsOnTheServer(): void
    {
        $tool = new DmcpTool(['server_url' => FakeServer::url()]);
        self::assertInstanceOf(MCPToolAdapter::class, $tool);
        $result = $tool->execute(['dice' => '1d20', 'reason' => 'Initiative'], 'c1');
        self::assertTrue($result->success);
        self::assertSame(
            ['dice' => '1d20', 'result' => 'Unknown result', 'total' => 15, 'rolls' => [15], 'reason' => 'Initiative'],
            $result->result,
        );
        self::assertSame('dmcp_roll_dice', $result->toolName);
    }

    /** @group extension */
    public function testD4FailuresAreResults(): void
    {
        $missing = (new DmcpTool(['server_url' => FakeServer::url()]))->execute(['dice' => ' '], 'c');
        self::assertSame('Missing required parameter: dice', $missing->error);
        self::assertSame(['error' => 'Dice notation is required'], $missing->result);
        self::assertSame('invalid_input', $missing->errorCode);

        $unset = (new DmcpTool([]))->execute(['dice' => '1d6'], 'c');
        self::assertSame('Server not configured', $unset->error);

        $broken = new DmcpTool(['server_url' => FakeServer::url(), 'tool_name' => 'rpc_error']);
        $result = $broken->execute(['dice' => '1d6'], 'c');
        self::assertSame('MCP Error (-32600): Invalid Request', $result->error);
        self::assertSame(['error' => 'Failed to execute: MCP Error (-32600): Invalid Request'], $result->result);

        $refused = new DmcpTool(['server_url' => FakeServer::url(), 'tool_name' => 'fails']);
        $result = $refused->execute(['dice' => '1d6'], 'c');
        self::assertSame('It is broken', $result->error);
        self::assertTrue($result->result['isError'], 'the content is unchanged');
    }

    public function testD4NamesOfTheServerCanBeMapped(): void
    {
        $sent = null;
        $client = $this->createMock(MCPSSEClient::class);
        $client->method('callTool')->willReturnCallback(function (string $name, array $arguments) use (&$sent) {
            $sent = [$name, $arguments];
            return ['content' => [['type' => 'text', 'text' => 'You rolled 15']]];
        });
        $tool = new DmcpTool([
            'server_url' => FakeServer::url(),
            'tool_name' => 'dice_roll',
            'argument_names' => ['dice' => 'diceRollExpression', 'reason' => null],
        ]);
        (new \ReflectionProperty(MCPToolAdapter::class, 'client'))->setValue($tool, $client);
        $result = $tool->execute(['dice' => '1d20', 'reason' => 'Luck'], 'c');
        self::assertSame(['dice_roll', ['diceRollExpression' => '1d20']], $sent);
        self::assertSame('You rolled 15', $result->result['result'], 'a server of today answers in text');
        self::assertSame('Luck', $result->result['reason']);
    }

    /** @dataProvider answers */
    public function testD4ResponsesOfCurrentServersAreRead(array $answer, mixed $result, mixed $total): void
    {
        $client = $this->createMock(MCPSSEClient::class);
        $client->method('callTool')->willReturn($answer);
        $tool = new DmcpTool(['server_url' => FakeServer::url()]);
        (new \ReflectionProperty(MCPToolAdapter::class, 'client'))->setValue($tool, $client);
        $got = $tool->execute(['dice' => '1d20'], 'c')->result;
        self::assertSame([$result, $total], [$got['result'], $got['total']]);
    }

    public static function answers(): iterable
    {
        $text = fn (string $text) => ['content' => [['type' => 'text', 'text' => $text]]];
        yield 'text' => [$text('You rolled 15'), 'You rolled 15', null];
        yield 'text that is JSON' => [$text('{"total": 15, "rolls": [15]}'), 'Unknown result', 15];
        yield 'structured' => [$text('15') + ['structuredContent' => ['total' => 15]], '15', 15];
        yield 'nothing' => [[], 'Unknown result', null];
    }

    public function testD4ThroughTheRegistry(): void
    {
        $registry = new ToolRegistry();
        $registry->register(new DmcpTool(['server_url' => FakeServer::url()]));
        self::assertSame(15, $registry->execute('dmcp_roll_dice', ['dice' => '1d20'], 'c')->result['total']);
        self::assertSame('Missing required parameter: dice', $registry->execute('dmcp_roll_dice', [], 'c')->error);
    }

    /** @group extension */
    public function testM2ADmcpCallLogsTwoLines(): void
    {
        $url = FakeServer::url();
        $calls = '$tool->execute(["dice" => "1d20", "reason" => "hunter2"], "c1"); $tool->execute([], "c2");'
            . '(new Pillion\DmcpTool(["server_url" => "http://127.0.0.1:1/sse"]))->execute(["dice" => "1d20"], "c3");';
        $ran = Process::run([
            PHP_BINARY, '-d', 'extension=' . getenv('PILLION_EXTENSION'), '-d', 'log_errors=1',
            '-d', 'pillion.log_level=info', '-r', "\$tool = new Pillion\\DmcpTool(['server_url' => '$url']); $calls",
        ]);
        $facts = fn (string $id): string => '{"tool":"dmcp_roll_dice","tool_call_id":"' . $id . '"}';
        preg_match_all('/\[pillion\] .*/', $ran['errors'], $lines);
        self::assertSame([
            "[pillion] [info] DMCP tool executing {$facts('c1')}",
            "[pillion] [info] DMCP tool executed successfully {$facts('c1')}",
            "[pillion] [info] DMCP tool executing {$facts('c3')}",
        ], $lines[0]);
        self::assertStringNotContainsString('hunter2', $ran['errors']);
    }

    private static function tool(array $config): MCPToolAdapter
    {
        return new class ($config) extends MCPToolAdapter {
            public function getName(): string
            {
                return 'mine';
            }

            public function getDefinition(): ToolDefinition
            {
                return new ToolDefinition('mine', 'A test');
            }

            public function getMCPCategory(): string
            {
                return 'test';
            }

            public function execute(array $arguments, string $toolCallId): ToolResult
            {
                return new ToolResult($toolCallId, 'mine', $this->client->callTool('roll', $arguments));
            }

            public function client(): ?MCPSSEClient
            {
                return $this->client;
            }
        };
    }
}
