<?php

declare(strict_types=1);

namespace Pillion\Laravel\Work;

use Closure;
use Illuminate\Container\Container;
use Pillion\Laravel\Execution\RateLimits;
use Pillion\Laravel\Hooks;
use Pillion\ToolCall;
use Pillion\ToolRegistry;
use Pillion\ToolResult;
use Pillion\Worker\Call;

/**
 * Wraps each call of a worker: checks the limits that the whole application shares, and resets the
 * application after the call.
 */
final class CallMiddleware
{
    public function __construct(
        private readonly Container $app,
        private readonly ToolRegistry $tools,
        private readonly CallScope $scope,
    ) {
    }

    /** @param Closure(): ToolResult $run */
    public function __invoke(Call $call, Closure $run): ToolResult
    {
        try {
            return $this->checkLimits($call) ?? $run();
        } finally {
            $this->scope->end($call->thrown);
        }
    }

    /**
     * Returns the user whose rate limits apply to a call, or the principal if the call has no
     * verified user. A user that the caller claims without proof is ignored, because the caller
     * could claim another user for each call.
     */
    private static function findAccount(Call $call): ?string
    {
        return $call->user ?? ($call->principal === null ? null : "\0$call->principal");
    }

    private function checkLimits(Call $call): ?ToolResult
    {
        $tool = $this->tools->get($call->tool);
        $limits = RateLimits::forTenant($this->app, $this->app->make(Hooks::class)->tenant());
        return $tool === null ? null : $limits->check(new ToolCall($call->id, $call->tool), $tool, self::findAccount($call));
    }
}
