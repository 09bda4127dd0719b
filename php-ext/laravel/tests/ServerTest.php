<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\NotFoundException;
use Pillion\Laravel\BoundedCache;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Identity;
use Pillion\Laravel\Servers\Server;
use Pillion\Laravel\Servers\ServerConfig;
use Pillion\Laravel\Tests\Fixtures\OwnServerTool;
use Pillion\Laravel\Tests\Fixtures\RollDice;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\FakeServer;
use Pillion\ToolResult;

final class ServerTest extends TestCase
{
    protected function setUp(): void
    {
        parent::setUp();
        $this->configure(['log.channel' => false, 'servers' => [
            'dice' => ['url' => FakeServer::url(), 'timeout' => 5]
                // The sidecar has its own credentials.
                + (extension_loaded('pillion') ? ['token' => 's3cret'] : []),
        ]]);
    }

    public function test_it_calls_tools(): void
    {
        $server = Pillion::server('dice');
        self::assertSame(15, $server->callTool('roll', ['dice' => '2d6'])->result['total']);
        $results = $server->callTools([
            ['name' => 'roll', 'arguments' => ['dice' => '1d4']],
            ['name' => 'fails', 'arguments' => []],
        ]);
        self::assertSame([true, false], array_column($results, 'success'));
        self::assertSame(['roll', 'echo', 'slow'], array_slice(array_column($server->listTools(), 'name'), 0, 3));
        self::assertTrue($server->isAvailable());
    }

    public function test_the_registry_offers_its_tools_with_the_prefix(): void
    {
        $this->configure(['servers.dice.except' => ['slow']]);
        self::assertSame(['dice_roll', 'dice_echo'], array_keys(Pillion::registry()->getMCPTools()));
        self::assertSame(15, Pillion::call('dice_roll', ['dice' => '2d6'])->result['total']);
        $this->configure(['servers.dice.prefix' => '']);
        self::assertTrue(Pillion::forUser('x')->registry()->has('roll'));
    }

    /** @return array<string, mixed> an entry in the words of HAWKI's guide */
    private static function entry(string $approval): array
    {
        return [
            'type' => 'mcp',
            'server_label' => 'my_mcp',
            'server_description' => 'Description of my MCP server',
            'server_url' => FakeServer::url(),
            'require_approval' => $approval,
        ];
    }

    public function test_n2_an_entry_with_a_class_offers_the_tool_of_the_class(): void
    {
        $entry = ['class' => OwnServerTool::class] + self::entry('always');
        $this->configure(['servers' => ['mine' => $entry]]);
        $tool = Pillion::registry()->getMCPTools()['own'];
        self::assertEquals($entry, $tool->getMCPServerConfig());
        self::assertSame('approval_required', Pillion::call('own')->errorCode);
        $this->configure(['approvals.tools' => ['own' => 'auto']]);
        self::assertTrue(Pillion::forUser('x')->call('own')->success, 'the application has the last word');
    }

    public function test_n2_an_entry_without_a_class_offers_the_tools_of_the_server(): void
    {
        $this->configure(['servers' => ['dice' => self::entry('prompt'), 'free' => ['server_label' => 'free'] + self::entry('never')]]);
        $config = Pillion::registry()->getMCPTools()['dice_roll']->getMCPServerConfig();
        self::assertSame(['mcp', 'my_mcp', FakeServer::url()], [$config['type'], $config['server_label'], $config['server_url']]);
        self::assertSame('approval_required', Pillion::call('dice_roll', ['dice' => '1d20'])->errorCode);
        self::assertSame(15, Pillion::call('free_roll', ['dice' => '1d20'])->result['total']);
    }

    public function test_a_queued_job_gets_a_server_by_name(): void
    {
        $server = Pillion::forUser('alice')->forTenant('acme')->server('dice');
        $text = serialize(new RollDice($server));
        self::assertStringNotContainsString('s3cret', $text);
        self::assertStringNotContainsString('127.0.0.1', $text);
        $again = unserialize($text)->server;
        self::assertEquals(['dice', 'alice', 'acme'], [$again->name, $again->user, $again->tenant]);
        self::assertSame(15, $again->callTool('roll', ['dice' => '2d6'])->result['total']);

        RollDice::$total = null;
        dispatch(new RollDice($server));
        self::assertSame(15, RollDice::$total);

        Pillion::fake(['roll' => ['total' => 1]]);
        dispatch(new RollDice($server));
        self::assertSame(1, RollDice::$total, 'the fake is there in jobs too');
        Pillion::assertToolCalled('roll', ['dice' => '1d20']);
    }

    public function test_each_user_has_their_own_token(): void
    {
        $this->needsTheExtension();
        Pillion::authenticateUsing('dice', fn (?string $user) => $user === null ? null : "token-of-$user");
        $seen = fn (Server $server) => $server->callTool('connection')->result['authorization'];
        self::assertSame('Bearer token-of-alice', $seen(Pillion::forUser('alice')->server('dice')));
        self::assertSame('Bearer token-of-bob', $seen(Pillion::forUser('bob')->server('dice')));
        self::assertNull($seen(Pillion::server('dice')), 'not that of the configuration');
    }

    public function test_credentials_of_the_entry_are_not_sent_with_a_users_token(): void
    {
        $entry = [
            'url' => 'https://app:s3cret@mcp.example.org/sse?a=b@c',
            'token' => 's3cret',
            'api_key' => 's3cret',
            'options' => [
                'authentication' => ['type' => 'basic', 'username' => 'app', 'password' => 's3cret'],
                'oauth' => ['client_secret' => 's3cret'],
                'api_key' => 's3cret',
                'token' => 's3cret',
                'headers' => [
                    'authorization' => 's3cret', 'Proxy-Authorization' => 's3cret', 'X-API-Key' => 's3cret',
                    'Cookie' => 's3cret', 'X-Auth-Token' => 's3cret', 'X-Region' => 'eu',
                ],
                'transport' => 'http',
            ],
        ];
        $config = ServerConfig::fromArray('x', $entry);
        $rest = ['label' => 'x', 'transport' => 'http', 'headers' => ['X-Region' => 'eu']];
        self::assertEquals(['api_key' => 'own'] + $rest, $config->options('own'));
        self::assertEquals($rest, $config->options(''));
        self::assertSame('https://mcp.example.org/sse?a=b@c', $config->serverArgument(true));
        self::assertSame('s3cret', $config->options(null)['api_key']);
        self::assertSame($entry['url'], $config->serverArgument());
    }

    public function test_a_header_of_the_application_is_not_sent_for_a_user(): void
    {
        $this->needsTheExtension();
        $this->configure(['servers.app.url' => FakeServer::url()]);
        $this->configure(['servers.app.options' => ['headers' => ['Authorization' => 'Bearer s3cret']]]);
        $seen = fn () => Pillion::forUser('x')->server('app')->callTool('connection')->result['authorization'];
        self::assertSame('Bearer s3cret', $seen());
        Pillion::disconnect();
        Pillion::authenticateUsing('app', fn (?string $user) => null);
        self::assertNull($seen());
    }

    public function test_commands_and_tool_classes_accept_no_token_of_a_user(): void
    {
        Pillion::authenticateUsing('later', fn () => 'x');
        $this->configure(['servers' => ['later' => ['command' => 'true'], 'class' => ['class' => self::class]]]);
        foreach (['later' => 'command', 'class' => 'tool class'] as $name => $kind) {
            Expect::exception(InvalidInputException::class, fn () => Pillion::authenticateUsing($name, fn () => 'x'), "'$name' is a $kind");
        }
        Expect::exception(InvalidInputException::class, fn () => Pillion::server('later')->listTools());
    }

    public function test_the_token_belongs_to_the_current_user(): void
    {
        $this->needsTheExtension();
        $this->configure(['servers.dice.url' => str_replace('/sse', '/everything', FakeServer::url())]);
        $now = 'alice';
        Pillion::resolveUserUsing(function () use (&$now): ?string {
            return $now;
        });
        Pillion::authenticateUsing('dice', fn (?string $user) => $user === null ? null : "token-of-$user");
        $of = fn (ToolResult $result) => $result->result['authorization'];

        $ofAlice = Pillion::server('dice');
        $executor = Pillion::executor();
        self::assertSame('Bearer token-of-alice', $of($ofAlice->callTool('connection')));
        self::assertSame('Bearer token-of-alice', $of(Pillion::call('dice_connection')));
        $now = 'bob';
        self::assertSame('Bearer token-of-bob', $of(Pillion::call('dice_connection')));
        self::assertSame('Bearer token-of-bob', $of(Pillion::server('dice')->callTool('connection')));
        self::assertSame('Bearer token-of-alice', $of($ofAlice->callTool('connection')), 'a server stays whose it is');
        $now = null;
        self::assertNull($of(Pillion::call('dice_connection')));

        $call = ['id' => 'c', 'name' => 'dice_connection', 'arguments' => []];
        self::assertSame('Bearer token-of-alice', $of($executor->execute($call)));
        self::assertSame('Bearer token-of-carol', $of($executor->execute($call, ['user' => 'carol'])));
        self::assertSame('Bearer token-of-carol', $of(Pillion::callTools([$call], ['user' => 'carol'])[0]));
        $tools = Pillion::forModel(['function_calling' => true, 'mcp' => true]);
        self::assertSame('Bearer token-of-dave', $of($tools->call('dice_connection', context: ['user' => 'dave'])));
    }

    public function test_the_number_of_clients_of_users_is_limited(): void
    {
        $recent = new BoundedCache(2);
        $made = 0;
        foreach (['1', '2', '1', '3', '1'] as $key) {
            $recent->get($key, function () use (&$made): int {
                return ++$made;
            });
        }
        self::assertSame([3, 4], $recent->all());
        self::assertNull($recent->peek('2'));
        self::assertNotSame((new Identity(null, null))->key(), (new Identity('', null))->key());
    }

    public function test_an_unreachable_server_is_skipped_for_a_while(): void
    {
        $this->configure(['servers.gone' => ['url' => 'http://127.0.0.1:9/mcp']]);
        self::assertTrue(Pillion::registry()->has('dice_roll'));
        self::assertSame(['gone'], array_keys(Pillion::skipped()));

        $this->configure(['servers.gone.url' => FakeServer::url()]);
        $later = Pillion::forUser('bob');
        self::assertFalse($later->registry()->has('gone_roll'), 'the server is not retried at once');
        $this->travel(31)->seconds();
        self::assertTrue(Pillion::forUser('bob')->registry()->has('gone_roll'));
    }

    /** @return array<string, array{mixed, string}> */
    public static function badEntries(): array
    {
        return [
            'no target' => [[], "MCP server 'bad' has neither a url nor a command"],
            'a typing error' => [['url' => 'http://x', 'tokn' => 'x'], 'pillion.servers.bad.tokn is unknown: expected one of url, '],
            'a number' => [['url' => 5], 'pillion.servers.bad.url must be a string or null, not int'],
            'a policy' => [['url' => 'http://x', 'require_approval' => 'maybe'], "pillion.servers.bad.require_approval must be never, always or prompt, not 'maybe'"],
            'names' => [['url' => 'http://x', 'only' => [1]], 'pillion.servers.bad.only.0 must be a string, not int'],
            'no array' => ['http://x', 'pillion.servers.bad must be an array, not string'],
        ];
    }

    /** @dataProvider badEntries */
    #[DataProvider('badEntries')]
    public function test_a_bad_entry_is_rejected(mixed $entry, string $message): void
    {
        $this->configure(['servers' => ['bad' => $entry]]);
        Expect::exception(InvalidInputException::class, fn () => Pillion::server('bad'), $message);
    }

    public function test_an_unknown_server_is_not_found(): void
    {
        $this->expectException(NotFoundException::class);
        $this->expectExceptionMessage("Unknown MCP server 'cards'; config/pillion.php defines: dice");
        Pillion::server('cards');
    }
}
