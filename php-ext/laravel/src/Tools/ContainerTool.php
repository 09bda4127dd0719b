<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Illuminate\Container\Container;
use Pillion\CallableTool;
use Pillion\Exception\InvalidInputException;
use Pillion\Laravel\SkippedEntries;
use Pillion\ToolDefinition;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Pillion\ToolResult;
use Throwable;

/**
 * A tool class of the application that the container creates for each call, so that constructor
 * dependencies belong to the current request or job even in long-running workers. If the class
 * cannot be created, models do not see the tool, and only its own calls fail.
 */
class ContainerTool implements ToolInterface
{
    /** @param class-string $class */
    final private function __construct(
        protected readonly string $class,
        private readonly ToolDefinition $definition,
    ) {
    }

    /**
     * Returns the tools of a class: one tool, or one tool for each method with the attribute
     * `AsTool`.
     *
     * @param class-string $class
     *
     * @return list<self>
     */
    public static function forClass(string $class): array
    {
        if (!is_a($class, ToolInterface::class, true)) {
            return array_map(fn (ToolDefinition $definition) => new self($class, $definition), AttributeTools::definitions($class));
        }
        $tools = [];
        foreach (self::createTools($class) as $tool) {
            $wrapperClass = $tool instanceof \Pillion\MCPToolInterface ? ContainerMcpTool::class : self::class;
            $tools[] = new $wrapperClass($class, $tool->getDefinition());
        }
        return $tools;
    }

    public function getName(): string
    {
        return $this->definition->name;
    }

    public function getDefinition(): ToolDefinition
    {
        return $this->definition;
    }

    public function execute(array $arguments, string $toolCallId): ToolResult
    {
        return $this->tool()->execute($arguments, $toolCallId);
    }

    public function isAvailableForProvider(string $providerClass): bool
    {
        return $this->withTool(fn (ToolInterface $tool) => $tool->isAvailableForProvider($providerClass), false);
    }

    public function isEnabledForModel(array|object $model): bool
    {
        return $this->withTool(fn (ToolInterface $tool) => $tool->isEnabledForModel($model), false);
    }

    /**
     * Calls `$callback` with an instance of the class. For a class with the attribute `AsTool`,
     * definitions are read without an instance.
     *
     * @template T
     *
     * @param \Closure(ToolInterface): T $callback
     * @param T                          $fallback returned if the class cannot be created
     *
     * @return T
     */
    protected function withTool(\Closure $callback, mixed $fallback): mixed
    {
        if (!is_a($this->class, ToolInterface::class, true)) {
            return $callback(new CallableTool($this->definition, static fn () => null));
        }
        $skippedEntries = Container::getInstance()->make(SkippedEntries::class);
        try {
            $tool = $this->tool();
        } catch (Throwable $exception) {
            $skippedEntries->add($this->class, $exception);
            return $fallback;
        }
        $skippedEntries->remove($this->class);
        return $callback($tool);
    }

    /** Creates a new instance of the class. */
    public function tool(): ToolInterface
    {
        return self::createTools($this->class)[$this->getName()]
            ?? throw new InvalidInputException("$this->class no longer has a tool '{$this->getName()}'");
    }

    /**
     * @param class-string $class
     *
     * @return array<string, ToolInterface>
     */
    private static function createTools(string $class): array
    {
        $instance = Container::getInstance()->make($class);
        if ($instance instanceof ToolInterface) {
            return [$instance->getName() => $instance];
        }
        $registry = new ToolRegistry();
        $registry->registerObject($instance);
        return $registry->getAll();
    }
}
