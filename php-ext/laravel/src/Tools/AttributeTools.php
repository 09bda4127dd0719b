<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Pillion\AsTool;
use Pillion\ToolDefinition;
use ReflectionClass;
use ReflectionMethod;

/** The tool definitions of a class with the attribute {@see AsTool}, read without an instance. */
final class AttributeTools
{
    /**
     * @param class-string $class
     *
     * @return list<ToolDefinition>
     *
     * @throws \Pillion\Exception\InvalidInputException when a method cannot be a tool
     */
    public static function definitions(string $class): array
    {
        $reflection = new ReflectionClass($class);
        $definitions = $reflection->getAttributes(AsTool::class) === [] ? [] : [ToolDefinition::fromCallable($class)];
        foreach ($reflection->getMethods(ReflectionMethod::IS_PUBLIC) as $method) {
            if ($method->getAttributes(AsTool::class) !== []) {
                $definitions[] = ToolDefinition::fromCallable([$class, $method->getName()]);
            }
        }
        return $definitions;
    }
}
