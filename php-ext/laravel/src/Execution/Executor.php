<?php

declare(strict_types=1);

namespace Pillion\Laravel\Execution;

use Pillion\Laravel\Approvals\Approvals;
use Pillion\Laravel\Approvals\ApprovalStatus;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\Testing\PillionFake;
use Pillion\ToolCall;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

/**
 * The engine's executor, with what an application adds: who calls, limits that all workers share,
 * approvals that outlive the request, and fakes.
 */
final class Executor extends ToolExecutor
{
    /** @param array<string, mixed> $options those of {@see ToolExecutor} */
    public function __construct(
        private readonly ToolRegistry $tools,
        array $options,
        private readonly Approvals $approvals,
        private readonly RateLimits $limits,
        private readonly ?PillionFake $fake,
        private readonly ?string $user,
    ) {
        parent::__construct($tools, $options);
    }

    public function execute(ToolCall|array $call, array $context = []): ToolResult
    {
        return $this->executeAll([$call], $context)[0];
    }

    public function executeAll(array $calls, array $context = []): array
    {
        return $this->run($calls, $context, fn (array $calls, array $context) => parent::executeAll($calls, $context));
    }

    public function executeParallel(array $calls, array $context = []): array
    {
        return $this->run(
            $calls,
            $context,
            fn (array $calls, array $context) => parent::executeParallel($calls, $context),
        );
    }

    /**
     * @param array<ToolCall|array<string, mixed>> $calls
     * @param array<string, mixed>                 $context
     *
     * @return list<ToolResult>
     */
    private function run(array $calls, array $context, \Closure $execute): array
    {
        $calls = array_map([PillionManager::class, 'toCall'], array_values($calls));
        $context = $this->context($context);
        $results = [];
        foreach ($calls as $place => $call) {
            $this->fake?->standIn($call, $this->tools);
            $results[$place] = $this->limits->refuse($call, $this->tools->get($call->name), $context['user'] ?? null);
        }
        $left = array_filter($calls, fn (int $place) => $results[$place] === null, ARRAY_FILTER_USE_KEY);
        $results = array_replace($results, self::runSome($left, $context, $execute));
        return array_replace($results, $this->runDecided($calls, $results, $context, $execute));
    }

    /**
     * Runs again what has been decided on, and notes what has not.
     *
     * @param array<int, ToolCall>   $calls
     * @param array<int, ToolResult> $results
     * @param array<string, mixed>   $context
     *
     * @return array<int, ToolResult> for the calls that ran again
     */
    private function runDecided(array $calls, array $results, array $context, \Closure $execute): array
    {
        $decided = [];
        foreach ($results as $place => $result) {
            $id = $result->metadata['approval_id'] ?? null;
            if ($result->errorCode !== 'approval_required' || !is_string($id)) {
                continue;
            }
            $status = $this->approvals->claim($result, $context['user'] ?? null);
            if ($status !== ApprovalStatus::Pending) {
                $decided[$place] = $calls[$place];
                $context[$status === ApprovalStatus::Approved ? 'approved' : 'denied'][] = $id;
            }
        }
        return self::runSome($decided, $context, $execute);
    }

    /**
     * @param array<int, ToolCall> $calls
     * @param array<string, mixed> $context
     *
     * @return array<int, ToolResult> by the places of the calls
     */
    private static function runSome(array $calls, array $context, \Closure $execute): array
    {
        return $calls === [] ? [] : array_combine(array_keys($calls), $execute(array_values($calls), $context));
    }

    /**
     * @param array<string, mixed> $context
     *
     * @return array<string, mixed>
     */
    private function context(array $context): array
    {
        $user = PillionManager::userKey($context['user'] ?? $this->user);
        return $user === null ? $context : ['user' => $user] + $context;
    }
}
