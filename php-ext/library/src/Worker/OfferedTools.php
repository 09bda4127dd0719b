<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\AsTool;
use Pillion\CallableTool;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Signature\Target;
use Pillion\NativeTool;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

/**
 * The tools that a worker offers, and their execution: validated as by any executor, but without rate limits
 * and approvals, which the sidecar enforces for all workers together.
 *
 * @internal
 */
final class OfferedTools
{
    /** One year, in seconds: the timeout of a call without a deadline. */
    private const NO_LIMIT = 31_536_000.0;

    /** @var array<string, OfferedTool> */
    private array $byName = [];
    private readonly ToolRegistry $registry;
    private ?object $dispatcher = null;

    public function __construct()
    {
        $this->registry = new ToolRegistry();
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
        $offered = [];
        foreach (self::toolsOf($source, $handler) as $tool) {
            $name = $tool->getName();
            if (isset($this->byName[$name]) || isset($offered[$name])) {
                throw Failure::invalidInput("Tool '$name' already registered");
            }
            $offered[$name] = new OfferedTool($tool, $options);
        }
        foreach ($offered as $name => $tool) {
            $this->registry->register($tool);
            $this->byName[$name] = $tool;
        }
    }

    /** @throws \Pillion\Exception\InvalidInputException when the dispatcher has no `dispatch()` method */
    public function setEventDispatcher(?object $dispatcher): void
    {
        (new ToolExecutor($this->registry))->setEventDispatcher($dispatcher);
        $this->dispatcher = $dispatcher;
    }

    /** @return list<string> */
    public function names(): array
    {
        return array_map(strval(...), array_keys($this->byName));
    }

    /** @return list<\stdClass> */
    public function descriptions(): array
    {
        return array_values(array_map(static fn (OfferedTool $tool): \stdClass => $tool->description(), $this->byName));
    }

    public function find(string $name): ?OfferedTool
    {
        return $this->byName[$name] ?? null;
    }

    /** @param string $arguments JSON, which keeps an empty map distinct from an empty list */
    public function run(OfferedTool $tool, Call $call, string $arguments): ToolResult
    {
        $tool->reset();
        $executor = new ToolExecutor($this->registry, [
            'timeout' => $call->secondsLeft() ?? self::NO_LIMIT,
            'approve' => static fn (): bool => true,
        ]);
        $executor->setEventDispatcher($this->dispatcher);
        $context = array_filter(['user' => $call->user, 'channel' => $call->channel], is_string(...));
        $tool->executorResult = $executor->execute(new ToolCall($call->id, $call->tool, $arguments), $context);
        $call->thrown = $tool->thrown;
        return $tool->executorResult;
    }

    /**
     * @param array<array-key, mixed>|object|string $source
     *
     * @return iterable<ToolInterface>
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    private static function toolsOf(object|array|string $source, ?callable $handler): iterable
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
        if (!$source instanceof \Closure && (is_object($source) || (is_string($source) && class_exists($source))) && self::isAttributed($source)) {
            $registry = new ToolRegistry();
            $registry->registerObject($source);
            return $registry->getAll();
        }
        $definition = ToolDefinition::fromCallable($source);
        return [new CallableTool($definition, self::callable($source))];
    }

    private static function isAttributed(object|string $source): bool
    {
        $class = new \ReflectionClass($source);
        foreach ([$class, ...$class->getMethods()] as $part) {
            if ($part->getAttributes(AsTool::class, \ReflectionAttribute::IS_INSTANCEOF) !== []) {
                return true;
            }
        }
        return false;
    }

    /** Returns the code that {@see ToolDefinition::fromCallable()} described. */
    private static function callable(object|array|string $source): callable
    {
        if (is_callable($source)) {
            return $source;
        }
        [$on, $method] = is_array($source) ? array_values($source) : [$source, method_exists($source, '__invoke') ? '__invoke' : 'execute'];
        $callable = [is_string($on) ? Target::instantiate(new \ReflectionClass($on)) : $on, $method];
        return is_callable($callable) ? $callable : throw Failure::invalidInput('The tool is not callable: pass a callable, a class or [class, method]');
    }
}
