<?php

declare(strict_types=1);

namespace Pillion\Fallback\Signature;

use Pillion\AsTool;
use Pillion\Exception\InvalidInputException;
use Pillion\Fallback\Failure;
use Pillion\Fallback\Json;
use Pillion\Parameter;
use Pillion\ToolDefinition;

/**
 * The tool definition that the signature and the doc comment of PHP code describe, and the conversion of
 * arguments to parameters.
 *
 * @internal
 */
final class Signature
{
    private const CONSTRAINTS = ['enum', 'minimum', 'maximum', 'minLength', 'maxLength', 'pattern', 'format'];

    /** @param array<string, class-string<\BackedEnum>|'int'|null> $binding the parameters, each with the target type of its argument */
    private function __construct(public readonly ToolDefinition $definition, public readonly array $binding)
    {
    }

    /** @throws InvalidInputException naming the code and the reason why it cannot be a tool */
    public static function read(Target $target, ?string $name = null, ?string $description = null): self
    {
        $comment = new DocComment($target->function->getDocComment());
        $toolAttribute = $target->attribute();
        $rejection = static fn (string $reason): InvalidInputException => Failure::invalidInput("$target->label $reason");
        $name ??= $toolAttribute?->name ?? $target->name
            ?? throw $rejection("has no name: set a name with #[Pillion\\AsTool(name: '...')]");
        $description ??= $toolAttribute?->description ?? $comment->summary ?? $target->classSummary()
            ?? throw $rejection("has no description: write a doc comment, or #[Pillion\\AsTool(description: '...')]");
        $toolAttribute ??= new AsTool();
        [$schema, $binding] = self::readParameters($target, $comment, $toolAttribute->strict);
        try {
            $definition = new ToolDefinition(
                $name,
                $description,
                $schema,
                $toolAttribute->strict,
                $toolAttribute->category,
                $toolAttribute->requiresConfirmation,
                $toolAttribute->cooldownSeconds,
            );
        } catch (InvalidInputException $exception) {
            throw $rejection("cannot be a tool: {$exception->getMessage()}");
        }
        return new self($definition, $binding);
    }

    /**
     * Converts the arguments of a call to the parameters of PHP code, in the order of the
     * parameters.
     *
     *  - Unknown arguments are omitted.
     *  - The value of an enum becomes the enum case.
     *  - A whole number becomes an integer, because JSON Schema treats `5.0` as an integer.
     *
     * @param array<string, class-string<\BackedEnum>|'int'|null> $binding
     * @param array<array-key, mixed>                             $arguments
     *
     * @return array<string, mixed>
     *
     * @throws InvalidInputException naming an `int` parameter whose argument is a fraction, or a number beyond 64 bits
     */
    public static function bind(array $binding, array $arguments): array
    {
        $boundArguments = [];
        foreach ($binding as $name => $targetType) {
            if (array_key_exists($name, $arguments)) {
                $value = $arguments[$name];
                $boundArguments[$name] = match ($targetType) {
                    null => $value,
                    PhpType::INTEGER => self::toInteger($name, $value),
                    // A value that is no case of the enum stays unchanged, because PHP then rejects
                    // it with its own message.
                    default => self::findCase($targetType, $value) ?? $value,
                };
            }
        }
        return $boundArguments;
    }

    private static function toInteger(string $name, mixed $value): mixed
    {
        if (!is_float($value)) {
            return $value;
        }
        return self::toExactInteger($value) ?? throw Failure::invalidInput(
            floor($value) === $value ? "Invalid value for $name: the value is beyond 64 bits" : "Invalid type for $name: expected integer",
        );
    }

    private static function toExactInteger(float $value): ?int
    {
        return floor($value) === $value && $value >= PHP_INT_MIN && $value < -(float) PHP_INT_MIN ? (int) $value : null;
    }

    /** @param class-string<\BackedEnum> $enumClass */
    private static function findCase(string $enumClass, mixed $value): ?\BackedEnum
    {
        $type = (string) (new \ReflectionEnum($enumClass))->getBackingType();
        $backingValue = $type === 'int' && is_float($value) ? self::toExactInteger($value) : $value;
        return get_debug_type($backingValue) === $type ? $enumClass::tryFrom($backingValue) : null;
    }

    /** @return array{array<string, mixed>, array<string, class-string<\BackedEnum>|'int'|null>} the schema and the binding */
    private static function readParameters(Target $target, DocComment $comment, bool $isStrict): array
    {
        $properties = $requiredNames = $binding = [];
        foreach ($target->function->getParameters() as $parameter) {
            $name = $parameter->getName();
            [$properties[$name], $binding[$name]] = self::readParameter($target->label, $parameter, $comment);
            if (!$parameter->isOptional()) {
                $requiredNames[] = $name;
            }
        }
        $schema = ['type' => 'object', 'properties' => $properties, 'required' => $requiredNames];
        // `additionalProperties` is set to false, because OpenAI's strict mode requires it.
        return [$isStrict ? $schema + ['additionalProperties' => false] : $schema, $binding];
    }

    /** @return array{array<string, mixed>, class-string<\BackedEnum>|'int'|null} */
    private static function readParameter(string $function, \ReflectionParameter $parameter, DocComment $comment): array
    {
        $name = $parameter->getName();
        $rejection = static fn (string $reason): InvalidInputException => Failure::invalidInput("Parameter \$$name of $function $reason");
        if ($parameter->isVariadic()) {
            throw $rejection('is variadic: take an array instead');
        }
        if ($parameter->isPassedByReference()) {
            throw $rejection('is passed by reference');
        }
        try {
            $phpType = new PhpType($parameter->getType());
        } catch (\DomainException $exception) {
            throw $rejection(
                "has the type {$exception->getMessage()}: use int, float, string, bool, array, a backed enum, or a union of these types",
            );
        }
        $documentedType = $comment->parameterType($name);
        $schema = $phpType->schema($documentedType === null ? null : DocType::parse($documentedType));
        $parameterAttribute = ($parameter->getAttributes(Parameter::class, \ReflectionAttribute::IS_INSTANCEOF)[0] ?? null)?->newInstance();
        $description = $parameterAttribute?->description ?? $comment->parameterDescription($name);
        $schema = array_replace($schema, $description === null ? [] : ['description' => $description]);
        foreach ($parameterAttribute === null ? [] : self::CONSTRAINTS as $keyword) {
            if ($parameterAttribute->$keyword !== null) {
                $schema[$keyword] = Json::toArrays(Json::toTree($parameterAttribute->$keyword));
            }
        }
        $extraKeywords = $parameterAttribute?->schema ?? [];
        if ($extraKeywords !== [] && array_is_list($extraKeywords)) {
            throw $rejection('has a schema that is not an array with string keys');
        }
        $schema = array_replace($schema, Json::toArrays(Json::toTree($extraKeywords)));
        if ($parameter->isOptional() && $parameter->isDefaultValueAvailable()) {
            $default = Json::toArrays(Json::toTree($parameter->getDefaultValue(), "default of \$$name of $function"));
            $schema += $default === null ? [] : ['default' => $default];
        }
        return [$schema, $phpType->targetType()];
    }
}
