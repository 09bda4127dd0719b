<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\CancellationToken;
use Pillion\Exception\CancelledException;
use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Http\Deadline;
use Pillion\Progress;

/**
 * The current call of a worker. A tool gets the call with {@see Call::current()}, to report progress and to check
 * for cancellation.
 */
final class Call
{
    /**
     * The token that is cancelled together with the call. Pass the token to nested calls, such as
     * `McpClient::callTool(..., cancellation: $token)`.
     */
    public readonly CancellationToken $cancellation;
    /** @var ?\Throwable the exception that the tool threw, if any */
    public ?\Throwable $thrown = null;

    private static ?self $currentCall = null;
    private ?string $cancellationReason = null;

    /**
     * @param string  $id          the ID of the call, as in the sidecar's call log
     * @param ?string $user        the user on whose behalf the call runs, verified by the sidecar: the caller
     *                             may act for this user; null when no user is verified
     * @param ?string $claimedUser the user that the caller names without the right to act for that user: for
     *                             display only; null when `$user` is verified or no user is named
     * @param ?string $principal   the caller that the sidecar authenticated: `uid:33` (a process on the socket),
     *                             `token:ci` or `stored-token:ci`
     * @param ?string $channel     the channel or conversation that the caller names
     *
     * @internal
     */
    public function __construct(
        public readonly string $id,
        public readonly string $tool,
        public readonly ?string $user,
        public readonly ?string $claimedUser,
        public readonly ?string $principal,
        public readonly ?string $channel,
        private readonly ?float $endTime,
        private readonly WorkerSession $session,
    ) {
        $this->cancellation = new CancellationToken();
    }

    /** Returns the current call; null outside of a worker. */
    public static function current(): ?self
    {
        return self::$currentCall;
    }

    /**
     * Reports progress to the caller. Code that also runs outside of a worker, where there is no
     * current call, should use `Call::current()?->progress(1, 3, 'looking')`.
     *
     * @param Progress|int|float $progress the amount that is done; must increase with each report
     * @param int|float|null     $total    the total amount, if known
     *
     * @throws InvalidInputException when a number is not finite or the message is not valid UTF-8
     */
    public function progress(Progress|int|float $progress, int|float|null $total = null, ?string $message = null): void
    {
        if (!$progress instanceof Progress) {
            $progress = new Progress((float) $progress, $total === null ? null : (float) $total, $message);
        }
        if (!is_finite($progress->progress) || !is_finite($progress->total ?? 0.0)) {
            throw Failure::invalidInput('The progress must be a finite number');
        }
        Argument::checkTexts([3 => $progress->message]);
        $this->session->reportProgress($progress);
    }

    /** Returns whether the call was cancelled. Reads pending messages from the sidecar first. */
    public function isCancelled(): bool
    {
        $this->session->readPendingMessages();
        return $this->cancellation->isCancelled();
    }

    /** @throws CancelledException when the call was cancelled */
    public function throwIfCancelled(): void
    {
        if ($this->isCancelled()) {
            throw Failure::forCode('cancelled', 'The call was cancelled' . ($this->cancellationReason === null ? '' : ": $this->cancellationReason"));
        }
    }

    /** Returns the seconds until the caller's deadline; null without a deadline. */
    public function secondsLeft(): ?float
    {
        return $this->endTime === null ? null : max(0.0, $this->endTime - Deadline::now());
    }

    /** @internal */
    public function cancel(?string $reason): void
    {
        $this->cancellationReason ??= $reason;
        $this->cancellation->cancel($reason);
    }

    /**
     * Runs a closure during which {@see current()} returns this call.
     *
     * @template T
     *
     * @param \Closure(): T $run
     *
     * @return T
     *
     * @internal
     */
    public function runAsCurrent(\Closure $run): mixed
    {
        self::$currentCall = $this;
        try {
            return $run();
        } finally {
            self::$currentCall = null;
        }
    }
}
