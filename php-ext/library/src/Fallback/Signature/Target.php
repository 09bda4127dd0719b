<?php

declare(strict_types=1);

namespace Pillion\Fallback\Signature;

use Pillion\AsTool;
use Pillion\Fallback\Argument;
use Pillion\Fallback\Failure;

/**
 * PHP code that can become a tool.
 *
 * @internal
 */
final class Target
{
    private function __construct(
        public readonly \ReflectionFunctionAbstract $function,
        /** The class, if the class as a whole is the tool. */
        private readonly ?\ReflectionClass $class,
        /** The name of the code in error messages. */
        public readonly string $label,
        /** The tool's name, unless an attribute sets another name; null for a closure. */
        public readonly ?string $name,
        /** The callable. For a class given by name, an object must be created first. */
        public readonly mixed $callable,
    ) {
    }

    /**
     * Returns the code of a callable, of a class name, of an object with `execute()`, or of
     * `[class, method]`.
     *
     * @param object|array<array-key, mixed>|string $given
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function find(object|array|string $given): self
    {
        foreach (is_object($given) ? [] : (array) $given as $part) {
            if (is_string($part) && !Argument::isUtf8($part)) {
                throw Failure::invalidInput('Argument #1 ($callable) is not valid UTF-8');
            }
        }
        if (is_object($given)) {
            return $given instanceof \Closure ? self::closure($given) : self::ofClass($given);
        }
        if (is_string($given)) {
            return match (true) {
                str_contains($given, '::') => self::named(...explode('::', $given, 2)),
                is_callable($given) => self::ofFunction($given),
                self::isClass($given) => self::ofClass($given),
                default => throw Failure::invalidInput("There is neither a function nor a class '$given'"),
            };
        }
        [$on, $method] = array_values($given) + [null, null];
        if (count($given) !== 2 || !(is_object($on) || is_string($on)) || !is_string($method)) {
            throw Failure::invalidInput('Argument #1 ($callable) must be a callable, a class or [class, method], array given');
        }
        return self::named($on, $method);
    }

    /**
     * Returns the code with the attribute `AsTool` in an object or a class. A class is instantiated if a
     * method needs an object.
     *
     * @return non-empty-list<self>
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function attributed(object|string $given): array
    {
        if (is_string($given) && !self::isClass($given)) {
            throw Failure::invalidInput("There is no class '$given'");
        }
        $class = new \ReflectionClass($given);
        $methods = [];
        if (self::attributeOn($class) !== null) {
            $methods[self::mainMethod($class) ?? throw Failure::invalidInput(
                "{$class->getName()} has #[Pillion\\AsTool] but neither __invoke() nor execute()",
            )] = true;
        }
        foreach ($class->getMethods() as $method) {
            if (self::attributeOn($method) === null) {
                continue;
            }
            if (!$method->isPublic()) {
                throw Failure::invalidInput("{$class->getName()}::{$method->getName()}() has #[Pillion\\AsTool] but is not public");
            }
            $methods += [$method->getName() => false];
        }
        if ($methods === []) {
            throw Failure::invalidInput("Nothing of {$class->getName()} has #[Pillion\\AsTool]");
        }
        $object = is_object($given) ? $given : null;
        $targets = [];
        foreach ($methods as $name => $ofClass) {
            $method = new \ReflectionMethod($class->getName(), $name);
            $on = $method->isStatic() ? $class->getName() : $object ??= self::make($class);
            $targets[] = self::method($method, $on, $ofClass);
        }
        return $targets;
    }

    /** Returns the attribute of the code, otherwise of the class that is the tool. */
    public function attribute(): ?AsTool
    {
        return self::attributeOn($this->function) ?? ($this->class === null ? null : self::attributeOn($this->class));
    }

    /** Returns the summary of the class, if the class is the tool. */
    public function classSummary(): ?string
    {
        return $this->class === null ? null : (new DocComment($this->class->getDocComment()))->summary;
    }

    private static function attributeOn(\ReflectionFunctionAbstract|\ReflectionClass $on): ?AsTool
    {
        return ($on->getAttributes(AsTool::class, \ReflectionAttribute::IS_INSTANCEOF)[0] ?? null)?->newInstance();
    }

    private static function named(object|string $on, string $method): self
    {
        if (is_string($on) && !self::isClass($on)) {
            throw Failure::invalidInput("There is no class '$on'");
        }
        $class = new \ReflectionClass($on);
        if (!$class->hasMethod($method)) {
            throw Failure::invalidInput("There is no method {$class->getName()}::$method()");
        }
        return self::method(new \ReflectionMethod($on, $method), $on, false);
    }

    private static function ofClass(object|string $given): self
    {
        $class = new \ReflectionClass($given);
        $method = self::mainMethod($class)
            ?? throw Failure::invalidInput("{$class->getName()} has neither __invoke() nor execute()");
        return self::method(new \ReflectionMethod($given, $method), $given, true);
    }

    /** @param bool $ofClass whether the class as a whole is the tool */
    private static function method(\ReflectionMethod $method, object|string $on, bool $ofClass): self
    {
        $name = $method->getName();
        $label = "{$method->getDeclaringClass()->getName()}::$name()";
        if (!$method->isPublic()) {
            throw Failure::invalidInput("$label is not public");
        }
        $class = $ofClass ? new \ReflectionClass($on) : null;
        return new self($method, $class, $label, $class === null ? $name : self::snakeCase($class->getShortName()), [$on, $name]);
    }

    private static function ofFunction(string $name): self
    {
        $function = new \ReflectionFunction($name);
        return new self($function, null, "$name()", $function->getShortName(), $name);
    }

    private static function closure(\Closure $closure): self
    {
        $function = new \ReflectionFunction($closure);
        $name = $function->getShortName();
        // A closure created from a method or a function has its name.
        $isNamed = !str_contains($name, '{closure');
        return new self($function, null, $isNamed ? "$name()" : 'The closure', $isNamed ? $name : null, $closure);
    }

    private static function isClass(string $name): bool
    {
        return class_exists($name) || interface_exists($name) || trait_exists($name) || enum_exists($name);
    }

    /** Returns the method that runs a class that is a tool as a whole. */
    private static function mainMethod(\ReflectionClass $class): ?string
    {
        foreach (['__invoke', 'execute'] as $name) {
            if ($class->hasMethod($name)) {
                return $name;
            }
        }
        return null;
    }

    private static function make(\ReflectionClass $class): object
    {
        if (!$class->isInstantiable() || $class->getConstructor()?->getNumberOfRequiredParameters() > 0) {
            throw Failure::invalidInput("{$class->getName()} cannot be made without arguments: pass an object of it");
        }
        return $class->newInstance();
    }

    /** Converts `RollDice` to `roll_dice`, the usual form of tool names. */
    private static function snakeCase(string $name): string
    {
        return strtolower((string) preg_replace('/(?<=[a-z0-9])(?=[A-Z])/', '_', $name));
    }
}
