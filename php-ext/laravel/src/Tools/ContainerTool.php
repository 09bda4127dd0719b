<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Illuminate\Container\Container;
use Pillion\Exception\InvalidInputException;
use Pillion\ToolDefinition;
use Pillion\ToolInterface;
use Pillion\ToolRegistry;
use Pillion\ToolResult;

/**
 * A tool class of the application, made by the container anew for each call: what its
 * constructor asks for is that of the request or job that calls, in workers that live long too.
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
     * The tools of a class: one, or one for each method with the attribute.
     *
     * @param class-string $class
     *
     * @return list<self>
     */
    public static function of(string $class): array
    {
        $tools = [];
        foreach (self::make($class) as $tool) {
            $wrapper = $tool instanceof \Pillion\MCPToolInterface ? ContainerMcpTool::class : self::class;
            $tools[] = new $wrapper($class, $tool->getDefinition());
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
        return $this->tool()->isAvailableForProvider($providerClass);
    }

    public function isEnabledForModel(array|object $model): bool
    {
        return $this->tool()->isEnabledForModel($model);
    }

    /** A new object of the class. */
    public function tool(): ToolInterface
    {
        return self::make($this->class)[$this->getName()]
            ?? throw new InvalidInputException("$this->class has no tool '{$this->getName()}' any more");
    }

    /**
     * @param class-string $class
     *
     * @return array<string, ToolInterface>
     */
    private static function make(string $class): array
    {
        $object = Container::getInstance()->make($class);
        if ($object instanceof ToolInterface) {
            return [$object->getName() => $object];
        }
        $registry = new ToolRegistry();
        $registry->registerObject($object);
        return $registry->getAll();
    }
}
