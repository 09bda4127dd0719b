<?php

declare(strict_types=1);

namespace Pillion\Worker;

use Pillion\AsTool;
use Pillion\CallableTool;
use Pillion\Fallback\Failure;
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
final class Tools
{
    /** One year, in seconds: the timeout of a call without a deadline. */
    private const NO_LIMIT = 31_536_000.0;

    /** @var array<string, Offered> */
    private array $byName = [];
    private readonly ToolRegistry $registry;
    private ?object $dispatcher = null;

    public function __construct()
    {
        $this->registry = new ToolRegistry();
    }

    /**
     * @param array<array-key, mixed>|object|string $given   see {@see \Pillion\Worker::add()}
     * @param array<string, mixed>                  $options
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public function add(object|array|string $given, ?callable $handler, array $options): void
    {
        if ($handler !== null && !$given instanceof ToolDefinition) {
            throw Failure::invalidInput('A handler is for a ToolDefinition');
        }
        $offered = [];
        foreach (self::read($given, $handler) as $tool) {
            $name = $tool->getName();
            if (isset($this->byName[$name]) || isset($offered[$name])) {
                throw Failure::invalidInput("Tool '$name' already registered");
            }
            $offered[$name] = new Offered($tool, $options);
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
        return array_values(array_map(static fn (Offered $tool): \stdClass => $tool->description(), $this->byName));
    }

    public function find(string $name): ?Offered
    {
        return $this->byName[$name] ?? null;
    }

    /** @param string $arguments JSON, which keeps an empty map distinct from an empty list */
    public function run(Offered $tool, Call $call, string $arguments): ToolResult
    {
        $tool->forget();
        $executor = new ToolExecutor($this->registry, [
            'timeout' => $call->secondsLeft() ?? self::NO_LIMIT,
            'approve' => static fn (): bool => true,
        ]);
        $executor->setEventDispatcher($this->dispatcher);
        $context = array_filter(['user' => $call->user, 'channel' => $call->channel], is_string(...));
        $tool->passed = $executor->execute(new ToolCall($call->id, $call->tool, $arguments), $context);
        $call->thrown = $tool->thrown;
        return $tool->passed;
    }

    /**
     * @param array<array-key, mixed>|object|string $given
     *
     * @return iterable<ToolInterface>
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    private static function read(object|array|string $given, ?callable $handler): iterable
    {
        if ($given instanceof ToolRegistry) {
            return array_filter($given->getAll(), static fn (ToolInterface $tool): bool => !$tool instanceof NativeTool);
        }
        if ($given instanceof ToolInterface) {
            return [$given];
        }
        if ($given instanceof ToolDefinition) {
            return [new CallableTool($given, $handler ?? throw Failure::invalidInput("$given->name: a definition needs a handler"))];
        }
        if (is_string($given) && is_a($given, ToolInterface::class, true)) {
            return [self::make($given)];
        }
        if (!$given instanceof \Closure && (is_object($given) || (is_string($given) && class_exists($given))) && self::isAttributed($given)) {
            $registry = new ToolRegistry();
            $registry->registerObject($given);
            return $registry->getAll();
        }
        $definition = ToolDefinition::fromCallable($given);
        return [new CallableTool($definition, self::callable($given))];
    }

    private static function isAttributed(object|string $given): bool
    {
        $class = new \ReflectionClass($given);
        foreach ([$class, ...$class->getMethods()] as $part) {
            if ($part->getAttributes(AsTool::class, \ReflectionAttribute::IS_INSTANCEOF) !== []) {
                return true;
            }
        }
        return false;
    }

    /** Returns the code that {@see ToolDefinition::fromCallable()} described. */
    private static function callable(object|array|string $given): callable
    {
        if (is_callable($given)) {
            return $given;
        }
        [$on, $method] = is_array($given) ? array_values($given) : [$given, method_exists($given, '__invoke') ? '__invoke' : 'execute'];
        $callable = [is_string($on) ? self::make($on) : $on, $method];
        return is_callable($callable) ? $callable : throw Failure::invalidInput('What was given cannot be called');
    }

    private static function make(string $name): object
    {
        $class = new \ReflectionClass($name);
        if (!$class->isInstantiable() || $class->getConstructor()?->getNumberOfRequiredParameters() > 0) {
            throw Failure::invalidInput("$name cannot be made without arguments: pass an object of it");
        }
        return $class->newInstance();
    }
}
