<?php

declare(strict_types=1);

namespace Pillion\Laravel\Models;

use Countable;
use Pillion\Laravel\Chat\Conversation;
use Pillion\Laravel\Execution\CallReader;
use Pillion\Laravel\Execution\Executor;
use Pillion\ProviderFormat;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

/** The tools that one model sees, and may call. */
final class ModelTools implements Countable
{
    /** @var ?array<string, ToolInterface> */
    private ?array $visibleTools = null;

    /** @param array<string, mixed>|object $model the model's capabilities */
    public function __construct(
        private readonly array|object $model,
        private readonly ToolRegistry $registry,
        private readonly Executor $executor,
        private readonly int $maxRounds,
        private readonly int $maxCalls,
    ) {
    }

    /** Returns the format of the model's requests: `openai`, `openai-responses`, `anthropic` or `google`. */
    public function provider(): string
    {
        return ModelCapabilities::provider($this->model);
    }

    /** @return list<string> */
    public function names(): array
    {
        return array_keys($this->visibleTools());
    }

    /** @return list<ToolDefinition> */
    public function definitions(): array
    {
        return $this->registry->getDefinitionsForModel($this->model);
    }

    /** @return array<string, string> the reasons why the model does not see certain tools, by tool name */
    public function dropped(): array
    {
        return $this->registry->getDroppedForModel($this->model);
    }

    public function has(string $name): bool
    {
        $tool = $this->registry->get($name);
        return $tool !== null && isset($this->visibleTools()[$tool->getName()]);
    }

    public function count(): int
    {
        return count($this->visibleTools());
    }

    /**
     * Returns the tool definitions in the format of the model's provider, for the member `tools` of
     * a request.
     *
     * @return list<array<string, mixed>>
     */
    public function format(?string $provider = null): array
    {
        return ProviderFormat::tools($provider ?? $this->provider(), $this->definitions());
    }

    /** @param array<string, mixed> $context */
    public function call(string $name, array $arguments = [], array $context = []): ToolResult
    {
        return $this->execute([new ToolCall(CallReader::generateId(), $name, $arguments)], $context)[0];
    }

    /**
     * Runs the model's calls concurrently. A call of a tool that the model does not see fails with
     * `not_found`.
     *
     * @param list<ToolCall|array<string, mixed>> $calls
     * @param array<string, mixed>                $context
     *
     * @return list<ToolResult> in the order of the calls
     */
    public function execute(array $calls, array $context = []): array
    {
        $parsedCalls = CallReader::readAll($calls);
        $visibleCalls = array_filter($parsedCalls, fn (ToolCall $call) => $this->has($call->name));
        $results = array_map(fn (ToolCall $call) => self::notFoundResult($call), $parsedCalls);
        if ($visibleCalls !== []) {
            $visibleResults = $this->executor->executeParallel(array_values($visibleCalls), $context);
            $results = array_replace($results, array_combine(array_keys($visibleCalls), $visibleResults));
        }
        return $results;
    }

    /**
     * Creates a conversation in which the model may call its tools.
     *
     * @param list<array<string, mixed>> $messages in the provider's format
     * @param ?string $provider the format of the conversation; null for the model's provider
     */
    public function conversation(array $messages, ?string $provider = null): Conversation
    {
        return new Conversation($provider ?? $this->provider(), $messages, $this->maxRounds, $this->maxCalls);
    }

    public function __serialize(): array
    {
        throw new \LogicException("The tools of a model cannot be serialized: call Pillion::forModel() in the job");
    }

    /** @return array<string, ToolInterface> */
    private function visibleTools(): array
    {
        return $this->visibleTools ??= $this->registry->getAvailableForModel($this->model);
    }

    private static function notFoundResult(ToolCall $call): ToolResult
    {
        return ToolResult::failure("Tool '$call->name' not found", 'not_found', $call->id, $call->name);
    }
}
