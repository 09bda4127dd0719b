<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\ApprovalRequiredException;
use Pillion\Exception\DeniedException;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\NotFoundException;
use Pillion\Exception\RateLimitedException;
use Pillion\Sidecar;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\SidecarProcess;
use PHPUnit\Framework\TestCase;

/** Calls that need approval, with the real sidecar (G1 to G3). */
final class SidecarApprovalTest extends TestCase
{
    private static SidecarProcess $process;
    private Sidecar $sidecar;

    public static function setUpBeforeClass(): void
    {
        self::$process = new SidecarProcess([], [
            'PILLION__TOOLS__CALCULATOR__REQUIRE_APPROVAL' => 'always',
            'PILLION__TOOLS__GET_TIME__RATE_LIMIT__PER_DAY' => '1',
        ]);
    }

    public static function tearDownAfterClass(): void
    {
        self::$process->stop();
    }

    protected function setUp(): void
    {
        $this->sidecar = new Sidecar(self::$process->socket, 20);
    }

    private function ask(string $expression, string $user): ApprovalRequiredException
    {
        return Expect::exception(
            ApprovalRequiredException::class,
            fn () => $this->sidecar->callTool('calculator', ['expression' => $expression], ['user' => $user]),
        );
    }

    public function testG3AnApprovedCallRunsOnce(): void
    {
        $asked = $this->ask('6 * 7', 'ann');
        self::assertSame('calculator', $asked->toolName);
        $waiting = $this->sidecar->listApprovals(['status' => 'pending', 'user' => 'ann']);
        self::assertSame([$asked->approvalId], array_column($waiting, 'id'));
        self::assertSame(['expression' => '6 * 7'], $waiting[0]['arguments']);
        $approval = $this->sidecar->approve($asked->approvalId, 'as agreed');
        self::assertSame(['approved', 'as agreed'], [$approval['status'], $approval['reason']]);
        $context = ['user' => 'ann', 'approval' => $asked->approvalId];
        self::assertSame(42, $this->sidecar->callTool('calculator', ['expression' => '6 * 7'], $context)['result']);
        self::assertNotSame($asked->approvalId, $this->ask('6 * 7', 'ann')->approvalId);
    }

    public function testG3AnApproverChangesTheArguments(): void
    {
        $asked = $this->ask('6 * 8', 'ann');
        $approval = $this->sidecar->approve($asked->approvalId, null, ['expression' => '6 * 7']);
        self::assertSame(['expression' => '6 * 8'], $approval['arguments']);
        self::assertSame(['expression' => '6 * 7'], $approval['approved_arguments']);
        self::assertTrue($approval['user_is_verified']);
        self::assertSame('uid:' . posix_getuid(), $approval['principal']);
        self::assertSame(42, $this->sidecar->callTool('calculator', ['expression' => '6 * 8'], ['user' => 'ann'])['result']);
    }

    public function testChangedArgumentsAreChecked(): void
    {
        $asked = $this->ask('6 * 9', 'ann');
        foreach ([['expression' => 7], ['a', 'b'], []] as $arguments) {
            Expect::exception(InvalidInputException::class, fn () => $this->sidecar->approve($asked->approvalId, null, $arguments), 'arguments');
        }
        self::assertSame('pending', $this->sidecar->listApprovals(['status' => 'pending', 'user' => 'ann'])[0]['status']);
    }

    public function testG3ADenialContainsItsReason(): void
    {
        $asked = $this->ask('1 + 1', 'bob');
        self::assertSame('denied', $this->sidecar->deny($asked->approvalId, 'not today')['status']);
        $this->expectException(DeniedException::class);
        $this->expectExceptionMessage('not today');
        $this->sidecar->callTool('calculator', ['expression' => '1 + 1'], ['user' => 'bob', 'approval' => $asked->approvalId]);
    }

    public function testADecisionIsMadeOnce(): void
    {
        $asked = $this->ask('2 + 2', 'cid');
        $this->sidecar->approve($asked->approvalId);
        Expect::exception(InvalidInputException::class, fn () => $this->sidecar->deny($asked->approvalId));
    }

    public function testAnUnknownApprovalCannotBeDecided(): void
    {
        foreach (['01a2007e-3395-7020-b45a-9f725a72da6e', '..', '', "a/b?c#d"] as $id) {
            $e = Expect::exception(NotFoundException::class, fn () => $this->sidecar->approve($id), failure: "'$id' was approved");
            self::assertSame('not_found', $e->errorCode);
        }
    }

    public function testWaitingForADecisionTimesOut(): void
    {
        $this->expectException(ApprovalRequiredException::class);
        $this->sidecar->callTool('calculator', ['expression' => '3 + 3'], ['user' => 'dan', 'approval_wait' => 0.2]);
    }

    /** @return iterable<string, array{array<string, mixed>, string}> */
    public static function wrongContexts(): iterable
    {
        yield 'an approval that is a list' => [['approval' => []], "The context's 'approval' must be a string"];
        yield 'a wait in words' => [['approval_wait' => 'soon'], "The context's 'approval_wait' must be a number of seconds"];
        yield 'a wait before now' => [['approval_wait' => -1], "The context's 'approval_wait' must be a number of seconds"];
        yield 'a key that is a number' => [['idempotency_key' => 7], "The context's 'idempotency_key' must be a string"];
    }

    /** @dataProvider wrongContexts */
    public function testAnInvalidContextIsAnError(array $context, string $message): void
    {
        Expect::exception(InvalidInputException::class, fn () => $this->sidecar->callTool('get_time', [], $context), $message);
    }

    public function testAnUnknownFilterIsAnError(): void
    {
        Expect::exception(InvalidInputException::class, fn () => $this->sidecar->listApprovals(['color' => 'red']), "Unknown filter 'color'");
    }

    public function testNullIsNoFilter(): void
    {
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage("The filter 'user' must be a string");
        $this->sidecar->listApprovals(['status' => 'pending', 'user' => null]);
    }

    public function testAListIsNoFilter(): void
    {
        self::assertIsArray($this->sidecar->listApprovals([]));
        Expect::exception(InvalidInputException::class, fn () => $this->sidecar->listApprovals(['pending']), "Unknown filter '0'");
    }

    public function testARequestWithAKeyRunsOnce(): void
    {
        $context = ['user' => 'eve', 'idempotency_key' => 'roll-1'];
        $first = $this->sidecar->callTool('roll_dice', ['notation' => '20d100'], $context);
        self::assertSame($first, $this->sidecar->callTool('roll_dice', ['notation' => '20d100'], $context));
        Expect::exception(InvalidInputException::class, fn () => $this->sidecar->callTool('roll_dice', ['notation' => '1d2'], $context));
    }

    public function testC7ALimitSetsRetryAfter(): void
    {
        $this->sidecar->callTool('get_time', [], ['user' => 'flo']);
        $e = Expect::exception(RateLimitedException::class, fn () => $this->sidecar->callTool('get_time', [], ['user' => 'flo']));
        self::assertGreaterThan(0, $e->retryAfter);
    }
}
