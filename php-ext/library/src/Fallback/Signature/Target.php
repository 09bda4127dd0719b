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
     * @param object|array<array-key, mixed>|string $callable
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function find(object|array|string $callable): self
    {
        foreach (is_object($callable) ? [] : (array) $callable as $part) {
            if (is_string($part) && !Argument::isUtf8($part)) {
                throw Failure::invalidInput('Argument #1 ($callable) is not valid UTF-8');
            }
        }
        if (is_object($callable)) {
            return $callable instanceof \Closure ? self::closure($callable) : self::forClass($callable);
        }
        if (is_string($callable)) {
            return match (true) {
                str_contains($callable, '::') => self::forMethodName(...explode('::', $callable, 2)),
                is_callable($callable) => self::forFunction($callable),
                self::isClass($callable) => self::forClass($callable),
                default => throw Failure::invalidInput("There is neither a function nor a class '$callable'"),
            };
        }
        [$on, $method] = array_values($callable) + [null, null];
        if (count($callable) !== 2 || !(is_object($on) || is_string($on)) || !is_string($method)) {
            throw Failure::invalidInput('Argument #1 ($callable) must be a callable, a class or [class, method], array given');
        }
        return self::forMethodName($on, $method);
    }

    /**
     * Returns the code with the attribute `AsTool` in an object or a class. A class is instantiated if a
     * method needs an object.
     *
     * @return non-empty-list<self>
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function attributed(object|string $callable): array
    {
        if (is_string($callable) && !self::isClass($callable)) {
            throw Failure::invalidInput("There is no class '$callable'");
        }
        $class = new \ReflectionClass($callable);
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
        $object = is_object($callable) ? $callable : null;
        $targets = [];
        foreach ($methods as $name => $isWholeClass) {
            $method = new \ReflectionMethod($class->getName(), $name);
            $on = $method->isStatic() ? $class->getName() : $object ??= self::instantiate($class);
            $targets[] = self::method($method, $on, $isWholeClass);
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

    private static function forMethodName(object|string $on, string $method): self
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

    private static function forClass(object|string $callable): self
    {
        $class = new \ReflectionClass($callable);
        $method = self::mainMethod($class)
            ?? throw Failure::invalidInput("{$class->getName()} has neither __invoke() nor execute()");
        return self::method(new \ReflectionMethod($callable, $method), $callable, true);
    }

    /** @param bool $isWholeClass whether the class as a whole is the tool */
    private static function method(\ReflectionMethod $method, object|string $on, bool $isWholeClass): self
    {
        $name = $method->getName();
        $label = "{$method->getDeclaringClass()->getName()}::$name()";
        if (!$method->isPublic()) {
            throw Failure::invalidInput("$label is not public");
        }
        $class = $isWholeClass ? new \ReflectionClass($on) : null;
        return new self($method, $class, $label, $class === null ? $name : self::snakeCase($class->getShortName()), [$on, $name]);
    }

    private static function forFunction(string $name): self
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

    /** @throws \Pillion\Exception\InvalidInputException when the constructor requires arguments */
    public static function instantiate(\ReflectionClass $class): object
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
