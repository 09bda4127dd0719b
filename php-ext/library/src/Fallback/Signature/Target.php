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
        /**
         * The callable that runs the code. For a class given by its name, an object must be created
         * first.
         */
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
            return $callable instanceof \Closure ? self::forClosure($callable) : self::forClass($callable);
        }
        if (is_string($callable)) {
            return match (true) {
                str_contains($callable, '::') => self::forMethodName(...explode('::', $callable, 2)),
                is_callable($callable) => self::forFunction($callable),
                self::isClass($callable) => self::forClass($callable),
                default => throw Failure::invalidInput("There is neither a function nor a class '$callable'"),
            };
        }
        [$objectOrClass, $method] = array_values($callable) + [null, null];
        if (count($callable) !== 2 || !(is_object($objectOrClass) || is_string($objectOrClass)) || !is_string($method)) {
            throw Failure::invalidInput('Argument #1 ($callable) must be a callable, a class or [class, method], array given');
        }
        return self::forMethodName($objectOrClass, $method);
    }

    /**
     * Returns the code with the attribute `AsTool` in an object or a class. A class is instantiated if a
     * method needs an object.
     *
     * @return non-empty-list<self>
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function findAttributed(object|string $callable): array
    {
        if (is_string($callable) && !self::isClass($callable)) {
            throw Failure::invalidInput("There is no class '$callable'");
        }
        $class = new \ReflectionClass($callable);
        $methods = [];
        if (self::readAttribute($class) !== null) {
            $methods[self::findMainMethod($class) ?? throw Failure::invalidInput(
                "{$class->getName()} has #[Pillion\\AsTool] but neither __invoke() nor execute()",
            )] = true;
        }
        foreach ($class->getMethods() as $method) {
            if (self::readAttribute($method) === null) {
                continue;
            }
            if (!$method->isPublic()) {
                throw Failure::invalidInput("{$class->getName()}::{$method->getName()}() has #[Pillion\\AsTool] but is not public");
            }
            $methods += [$method->getName() => false];
        }
        if ($methods === []) {
            throw Failure::invalidInput("Neither {$class->getName()} nor its methods have #[Pillion\\AsTool]");
        }
        $object = is_object($callable) ? $callable : null;
        $targets = [];
        foreach ($methods as $name => $isWholeClass) {
            $method = new \ReflectionMethod($class->getName(), $name);
            $objectOrClass = $method->isStatic() ? $class->getName() : $object ??= self::instantiate($class);
            $targets[] = self::forMethod($method, $objectOrClass, $isWholeClass);
        }
        return $targets;
    }

    /**
     * Returns the attribute `AsTool` of the code; otherwise the attribute of the class, if the
     * class is the tool.
     */
    public function attribute(): ?AsTool
    {
        return self::readAttribute($this->function) ?? ($this->class === null ? null : self::readAttribute($this->class));
    }

    /** Returns the summary in the doc comment of the class, if the class is the tool. */
    public function classSummary(): ?string
    {
        return $this->class === null ? null : (new DocComment($this->class->getDocComment()))->summary;
    }

    private static function readAttribute(\ReflectionFunctionAbstract|\ReflectionClass $code): ?AsTool
    {
        return ($code->getAttributes(AsTool::class, \ReflectionAttribute::IS_INSTANCEOF)[0] ?? null)?->newInstance();
    }

    private static function forMethodName(object|string $objectOrClass, string $method): self
    {
        if (is_string($objectOrClass) && !self::isClass($objectOrClass)) {
            throw Failure::invalidInput("There is no class '$objectOrClass'");
        }
        $class = new \ReflectionClass($objectOrClass);
        if (!$class->hasMethod($method)) {
            throw Failure::invalidInput("There is no method {$class->getName()}::$method()");
        }
        return self::forMethod(new \ReflectionMethod($objectOrClass, $method), $objectOrClass, false);
    }

    private static function forClass(object|string $callable): self
    {
        $class = new \ReflectionClass($callable);
        $method = self::findMainMethod($class)
            ?? throw Failure::invalidInput("{$class->getName()} has neither __invoke() nor execute()");
        return self::forMethod(new \ReflectionMethod($callable, $method), $callable, true);
    }

    /** @param bool $isWholeClass whether the class as a whole is the tool */
    private static function forMethod(\ReflectionMethod $method, object|string $objectOrClass, bool $isWholeClass): self
    {
        $name = $method->getName();
        $label = "{$method->getDeclaringClass()->getName()}::$name()";
        if (!$method->isPublic()) {
            throw Failure::invalidInput("$label is not public");
        }
        $class = $isWholeClass ? new \ReflectionClass($objectOrClass) : null;
        return new self($method, $class, $label, $class === null ? $name : self::toSnakeCase($class->getShortName()), [$objectOrClass, $name]);
    }

    private static function forFunction(string $name): self
    {
        $function = new \ReflectionFunction($name);
        return new self($function, null, "$name()", $function->getShortName(), $name);
    }

    private static function forClosure(\Closure $closure): self
    {
        $function = new \ReflectionFunction($closure);
        $name = $function->getShortName();
        // Only an anonymous closure has no name: a closure created from a method or a function has
        // the name of the method or function.
        $isNamed = !str_contains($name, '{closure');
        return new self($function, null, $isNamed ? "$name()" : 'The closure', $isNamed ? $name : null, $closure);
    }

    private static function isClass(string $name): bool
    {
        return class_exists($name) || interface_exists($name) || trait_exists($name) || enum_exists($name);
    }

    /** Returns the method that is called if a whole class is the tool. */
    private static function findMainMethod(\ReflectionClass $class): ?string
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
            throw Failure::invalidInput("{$class->getName()} cannot be created without constructor arguments: pass an object of the class");
        }
        return $class->newInstance();
    }

    /** Converts `RollDice` to `roll_dice`, the usual form of tool names. */
    private static function toSnakeCase(string $name): string
    {
        return strtolower((string) preg_replace('/(?<=[a-z0-9])(?=[A-Z])/', '_', $name));
    }
}
