<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests;

use PHPUnit\Framework\Attributes\DataProvider;
use Pillion\Laravel\Facades\Pillion;
use Pillion\Laravel\Tests\Support\Sidecar;
use Pillion\Tests\Support\FakeServer;
use Pillion\Tests\Support\SidecarProcess;
use Pillion\ToolDefinition;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

final class SidecarTest extends TestCase
{
    protected function setUp(): void
    {
        parent::setUp();
        $this->needsASidecar();
        $this->configure(['sidecar.socket' => Sidecar::socket()]);
    }

    public function test_the_configured_socket_is_used(): void
    {
        self::assertSame(Sidecar::socket(), Pillion::sidecar()->getSocketPath());
        self::assertTrue(Pillion::sidecar()->isAvailable());
        self::assertEquals(42, Pillion::sidecar()->callTool('calculator', ['expression' => '6 * 7'])['result']);
    }

    public function test_h2_its_tools_are_offered_like_those_of_mcp_servers(): void
    {
        self::assertFalse(Pillion::registry()->has('dice_roll'));
        $this->configure(['sidecar.register' => true]);
        $mcp = ['function_calling' => true, 'mcp' => true, 'enabled_tools' => ['dice_roll', 'calculator']];
        $pillion = Pillion::forUser('alice');
        self::assertSame(['calculator', 'dice_roll'], $pillion->forModel($mcp)->names());
        self::assertSame(15, $pillion->forModel($mcp)->call('dice_roll', ['dice' => '2d6'])->result['total']);
        self::assertSame(['calculator'], $pillion->forModel(['mcp' => false] + $mcp)->names());
        self::assertSame('invalid_input', $pillion->call('dice_roll', [])->errorCode);
    }

    /** @return array<string, array{array<string, mixed>}> where its tools come from */
    public static function offers(): array
    {
        $server = ['url' => FakeServer::url(), 'prefix' => 'dice_'];
        return ['those that it offers' => [['sidecar.register' => true]]]
            // With the library, the sidecar connects to servers.
            + (extension_loaded('pillion') ? [] : ['those of a server' => [['servers' => ['dice' => $server]]]]);
    }

    /**
     * @param array<string, mixed> $configured
     *
     * @dataProvider offers
     */
    #[DataProvider('offers')]
    public function test_g3_approvals_of_the_sidecar_are_decided_in_the_application(array $configured): void
    {
        $process = new SidecarProcess([['label' => 'dice', 'url' => FakeServer::url(), 'require_approval' => 'always']]);
        $this->configure(['sidecar.socket' => $process->socket] + $configured);
        $alice = Pillion::forUser('alice');
        $roll = fn () => $alice->call('dice_roll', ['dice' => '2d6']);
        self::assertSame('approval_required', $roll()->errorCode);
        self::assertSame('approval_required', $roll()->errorCode, 'the approval is undecided');
        $pending = Pillion::approvals()->pendingFor('alice');
        self::assertSame([['dice_roll', ['dice' => '2d6']]], array_map(fn ($one) => [$one->tool, $one->arguments], $pending));

        Pillion::approvals()->approve($pending[0]->id, by: 'carol');
        self::assertSame(15, $roll()->result['total'] ?? $roll()->error);
        self::assertNull(Pillion::approvals()->find($pending[0]->id), 'the decision is used up');
        self::assertSame('by carol', Pillion::sidecar()->listApprovals()[0]['reason']);

        $again = $roll();
        self::assertSame('approval_required', $again->errorCode, 'it ran once');
        Pillion::approvals()->deny($again->metadata['approval_id']);
        self::assertSame('denied', $roll()->errorCode);
    }

    public function test_g3_the_application_and_the_sidecar_may_both_require_approval(): void
    {
        $process = new SidecarProcess([['label' => 'dice', 'url' => FakeServer::url(), 'require_approval' => 'always']]);
        $this->configure([
            'sidecar.socket' => $process->socket,
            'sidecar.register' => true,
            'approvals.tools' => ['dice_roll' => 'always-ask'],
            // Each call of the application counts once, even if the sidecar receives several
            // requests for it.
            'limits.rate_limits' => ['tools' => ['dice_roll' => ['per_minute' => 2]]],
        ]);
        $codes = $decided = [];
        do {
            $result = Pillion::call('dice_roll', ['dice' => '2d6']);
            $codes[] = $result->errorCode;
            foreach (Pillion::approvals()->pending() as $pending) {
                $decided[] = Pillion::approvals()->approve($pending->id)->id;
            }
        } while (!$result->success && count($codes) < 10);
        self::assertSame(15, $result->result['total'] ?? $result->error);
        self::assertCount(2, $decided, 'one of each');
        self::assertCount(2, array_unique($decided));
        self::assertSame(['approval_required', 'approval_required', null], $codes);
    }

    public function test_g3_a_call_with_the_id_of_another_is_another_call(): void
    {
        $process = new SidecarProcess([['label' => 'dice', 'url' => FakeServer::url(), 'require_approval' => 'always']]);
        $this->configure([
            'sidecar.socket' => $process->socket,
            'sidecar.register' => true,
            'approvals.tools' => ['wipe' => 'always-ask'],
        ]);
        $wiped = 0;
        app(ToolRegistry::class)->register(new ToolDefinition('wipe', 'Wipes'), function () use (&$wiped): string {
            $wiped++;
            return 'wiped';
        });
        // A model may give two calls the same ID, and the sidecar requests approval for the first call.
        $calls = [['id' => 'x', 'name' => 'dice_roll', 'arguments' => ['dice' => '2d6']], ['id' => 'x', 'name' => 'wipe']];
        $run = fn () => array_map(fn (ToolResult $result) => $result->errorCode, Pillion::executor()->executeAll($calls));
        self::assertSame(['approval_required', 'approval_required'], $run());
        foreach (Pillion::approvals()->pending() as $pending) {
            Pillion::approvals()->approve($pending->id);
        }
        self::assertSame([null, null], $run());
        self::assertSame(1, $wiped);
        self::assertSame(['approval_required', 'approval_required'], $run(), 'both approvals are used up');
        self::assertSame(1, $wiped);
    }

    public function test_without_a_sidecar_the_application_works(): void
    {
        $this->configure(['sidecar.register' => true, 'sidecar.socket' => '/nowhere/pillion.sock']);
        self::assertTrue(Pillion::registry()->has('calculator'));
        self::assertStringContainsString('/nowhere/pillion.sock', Pillion::skipped()['(sidecar)']);
    }
}
