<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\AsTool;
use Pillion\CallableTool;
use Pillion\Fallback\Executor\CallNotices;
use Pillion\Fallback\Executor\ToolFailure;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Hooks;
use Pillion\Fallback\Http\Deadline;
use Pillion\Fallback\Json;
use Pillion\Fallback\Signature\Target;
use Pillion\NativeTool;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

/**
 * The tools that a worker offers, and their execution.
 *
 * @internal
 */
final class OfferedTools
{
    /** @var array<string, OfferedTool> */
    private array $tools = [];
    private readonly Hooks $hooks;

    public function __construct()
    {
        $this->hooks = new Hooks();
    }

    /**
     * @param array<array-key, mixed>|object|string $source see {@see \Pillion\Worker::add()}
     * @param array<string, mixed>                  $options
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public function add(object|array|string $source, ?callable $handler, array $options): void
    {
        if ($handler !== null && !$source instanceof ToolDefinition) {
            throw Failure::invalidInput('A handler is only allowed with a ToolDefinition');
        }
        $newTools = [];
        foreach (self::toTools($source, $handler) as $tool) {
            $name = $tool->getName();
            if (isset($this->tools[$name]) || isset($newTools[$name])) {
                throw Failure::invalidInput("Tool '$name' already registered");
            }
            $newTools[$name] = new OfferedTool($tool, $options);
        }
        foreach ($newTools as $name => $tool) {
            $this->tools[$name] = $tool;
        }
    }

    /** @throws \Pillion\Exception\InvalidInputException when the dispatcher has no `dispatch()` method */
    public function setEventDispatcher(?object $dispatcher): void
    {
        $this->hooks->setEventDispatcher($dispatcher);
    }

    /** @return list<string> */
    public function names(): array
    {
        return array_map(strval(...), array_keys($this->tools));
    }

    /** @return list<\stdClass> */
    public function descriptions(): array
    {
        return array_values(array_map(static fn (OfferedTool $tool): \stdClass => $tool->description(), $this->tools));
    }

    public function find(string $name): ?OfferedTool
    {
        return $this->tools[$name] ?? null;
    }

    /**
     * Runs a tool. The sidecar has validated the arguments, and applied limits and approvals for all workers
     * together.
     *
     * @param string $arguments JSON, which keeps an empty map distinct from an empty list
     */
    public function run(OfferedTool $tool, Call $call, string $arguments): ToolResult
    {
        $tool->reset();
        $notices = new CallNotices($this->hooks);
        $notices->start($call->tool, $call->id, null);
        $startedAt = Deadline::now();
        $maxSeconds = $call->secondsLeft();
        try {
            $output = $tool->execute((array) Json::toArrays(self::parseArguments($arguments)), $call->id);
            $seconds = Deadline::now() - $startedAt;
            // The deadline is checked after the tool has returned, because PHP code cannot be
            // interrupted.
            if ($maxSeconds !== null && $seconds > $maxSeconds) {
                throw new ToolFailure('timeout', "Tool '$call->tool' timed out after " . Json::encode($maxSeconds) . 's');
            }
            $result = self::normalizeResult($output, $call, $seconds);
        } catch (\Throwable $exception) {
            $result = ToolFailure::fromThrowable($exception)->toResult(new ToolCall($call->id, $call->tool));
        }
        $notices->finish($call->tool, $call->id, null, $result->errorCode, Deadline::now() - $startedAt);
        $tool->executorResult = $result;
        $call->thrown = $tool->thrownException;
        return $result;
    }

    /** @throws ToolFailure */
    private static function parseArguments(string $arguments): mixed
    {
        try {
            return Json::parse($arguments);
        } catch (\JsonException $exception) {
            throw new ToolFailure('invalid_input', "Invalid JSON in arguments: {$exception->getMessage()}");
        }
    }

    /**
     * Returns the tool's output as a result whose values were converted to JSON and back.
     *
     * @throws \Pillion\Exception\PillionException when a value cannot be converted to JSON: `internal_error`
     */
    private static function normalizeResult(ToolResult $output, Call $call, float $seconds): ToolResult
    {
        $convertValue = static fn (mixed $value): mixed => Json::toArrays(Json::parse(Json::encodeReturnValue($value)));
        $metadata = ['execution_time' => round($seconds, 6)] + (array) $convertValue((object) $output->metadata);
        $errorCode = $output->success ? null : Failure::toKnownCode($output->errorCode);
        $error = $output->success ? null : $output->error ?? 'The tool failed';
        return new ToolResult($call->id, $call->tool, $convertValue($output->result), $output->success, $error, $errorCode, $convertValue($output->data), $metadata);
    }

    /**
     * @param array<array-key, mixed>|object|string $source
     *
     * @return iterable<ToolInterface>
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    private static function toTools(object|array|string $source, ?callable $handler): iterable
    {
        if ($source instanceof ToolRegistry) {
            return array_filter($source->getAll(), static fn (ToolInterface $tool): bool => !$tool instanceof NativeTool);
        }
        if ($source instanceof ToolInterface) {
            return [$source];
        }
        if ($source instanceof ToolDefinition) {
            return [new CallableTool($source, $handler ?? throw Failure::invalidInput("$source->name: a definition needs a handler"))];
        }
        if (is_string($source) && is_a($source, ToolInterface::class, true)) {
            return [Target::instantiate(new \ReflectionClass($source))];
        }
        if (!$source instanceof \Closure && (is_object($source) || (is_string($source) && class_exists($source))) && self::hasToolAttribute($source)) {
            $registry = new ToolRegistry();
            $registry->registerObject($source);
            return $registry->getAll();
        }
        $definition = ToolDefinition::fromCallable($source);
        return [new CallableTool($definition, self::toCallable($source))];
    }

    private static function hasToolAttribute(object|string $source): bool
    {
        $class = new \ReflectionClass($source);
        foreach ([$class, ...$class->getMethods()] as $part) {
            if ($part->getAttributes(AsTool::class, \ReflectionAttribute::IS_INSTANCEOF) !== []) {
                return true;
            }
        }
        return false;
    }

    /**
     * Returns the PHP code from which {@see ToolDefinition::fromCallable()} created the definition.
     */
    private static function toCallable(object|array|string $source): callable
    {
        if (is_callable($source)) {
            return $source;
        }
        [$objectOrClass, $method] = is_array($source) ? array_values($source) : [$source, method_exists($source, '__invoke') ? '__invoke' : 'execute'];
        $callable = [is_string($objectOrClass) ? Target::instantiate(new \ReflectionClass($objectOrClass)) : $objectOrClass, $method];
        return is_callable($callable) ? $callable : throw Failure::invalidInput('The given tool is not callable: pass a callable, a class or [class, method]');
    }
}
