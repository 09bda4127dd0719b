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
        $attribute = $target->attribute();
        $reject = static fn (string $reason): InvalidInputException => Failure::invalidInput("$target->label $reason");
        $name ??= $attribute?->name ?? $target->name
            ?? throw $reject("has no name: give it one with #[Pillion\\AsTool(name: '...')]");
        $description ??= $attribute?->description ?? $comment->summary ?? $target->classSummary()
            ?? throw $reject("has no description: write a doc comment, or #[Pillion\\AsTool(description: '...')]");
        $attribute ??= new AsTool();
        [$schema, $binding] = self::parameters($target, $comment, $attribute->strict);
        try {
            $definition = new ToolDefinition(
                $name,
                $description,
                $schema,
                $attribute->strict,
                $attribute->category,
                $attribute->requiresConfirmation,
                $attribute->cooldownSeconds,
            );
        } catch (InvalidInputException $e) {
            throw $reject("cannot be a tool: {$e->getMessage()}");
        }
        return new self($definition, $binding);
    }

    /**
     * Converts the arguments of a call to parameters: in the order of the parameters, without unknown
     * arguments, with enum cases for their values, and with whole numbers as integers (in JSON Schema `5.0`
     * is an integer).
     *
     * @param array<string, class-string<\BackedEnum>|'int'|null> $binding
     * @param array<array-key, mixed>                             $arguments
     *
     * @return array<string, mixed>
     *
     * @throws InvalidInputException naming an argument that is not a PHP integer
     */
    public static function bind(array $binding, array $arguments): array
    {
        $bound = [];
        foreach ($binding as $name => $kind) {
            if (array_key_exists($name, $arguments)) {
                $value = $arguments[$name];
                $bound[$name] = match ($kind) {
                    null => $value,
                    PhpType::INTEGER => self::toInteger($name, $value),
                    // PHP itself rejects a value that is not a case, with its own message.
                    default => self::caseOf($kind, $value) ?? $value,
                };
            }
        }
        return $bound;
    }

    private static function toInteger(string $name, mixed $value): mixed
    {
        if (!is_float($value)) {
            return $value;
        }
        return self::integerOf($value) ?? throw Failure::invalidInput(
            floor($value) === $value ? "Invalid value for $name: the value is beyond 64 bits" : "Invalid type for $name: expected integer",
        );
    }

    private static function integerOf(float $value): ?int
    {
        return floor($value) === $value && $value >= PHP_INT_MIN && $value < -(float) PHP_INT_MIN ? (int) $value : null;
    }

    /** @param class-string<\BackedEnum> $enumeration */
    private static function caseOf(string $enumeration, mixed $value): ?\BackedEnum
    {
        $type = (string) (new \ReflectionEnum($enumeration))->getBackingType();
        $value = $type === 'int' && is_float($value) ? self::integerOf($value) : $value;
        return get_debug_type($value) === $type ? $enumeration::tryFrom($value) : null;
    }

    /** @return array{array<string, mixed>, array<string, class-string<\BackedEnum>|'int'|null>} the schema and the binding */
    private static function parameters(Target $target, DocComment $comment, bool $strict): array
    {
        $properties = $required = $binding = [];
        foreach ($target->function->getParameters() as $parameter) {
            $name = $parameter->getName();
            [$properties[$name], $binding[$name]] = self::parameter($target->label, $parameter, $comment);
            if (!$parameter->isOptional()) {
                $required[] = $name;
            }
        }
        $schema = ['type' => 'object', 'properties' => $properties, 'required' => $required];
        // OpenAI's strict mode requires `additionalProperties`.
        return [$strict ? $schema + ['additionalProperties' => false] : $schema, $binding];
    }

    /** @return array{array<string, mixed>, class-string<\BackedEnum>|'int'|null} */
    private static function parameter(string $function, \ReflectionParameter $parameter, DocComment $comment): array
    {
        $name = $parameter->getName();
        $reject = static fn (string $reason): InvalidInputException => Failure::invalidInput("Parameter \$$name of $function $reason");
        if ($parameter->isVariadic()) {
            throw $reject('is variadic: take an array instead');
        }
        if ($parameter->isPassedByReference()) {
            throw $reject('is passed by reference');
        }
        try {
            $declared = new PhpType($parameter->getType());
        } catch (\DomainException $e) {
            throw $reject(
                "has the type {$e->getMessage()}: int, float, string, bool, array, backed enums and unions of them can be a tool's",
            );
        }
        $documented = $comment->typeOf($name);
        $schema = $declared->schema($documented === null ? null : DocType::schema($documented));
        $parameterAttribute = ($parameter->getAttributes(Parameter::class, \ReflectionAttribute::IS_INSTANCEOF)[0] ?? null)?->newInstance();
        $description = $parameterAttribute?->description ?? $comment->descriptionOf($name);
        $schema = array_replace($schema, $description === null ? [] : ['description' => $description]);
        foreach ($parameterAttribute === null ? [] : self::CONSTRAINTS as $keyword) {
            if ($parameterAttribute->$keyword !== null) {
                $schema[$keyword] = Json::toArrays(Json::toTree($parameterAttribute->$keyword));
            }
        }
        $extraKeywords = $parameterAttribute?->schema ?? [];
        if ($extraKeywords !== [] && array_is_list($extraKeywords)) {
            throw $reject('has a schema that is not a map');
        }
        $schema = array_replace($schema, Json::toArrays(Json::toTree($extraKeywords)));
        if ($parameter->isOptional() && $parameter->isDefaultValueAvailable()) {
            $default = Json::toArrays(Json::toTree($parameter->getDefaultValue(), "default of \$$name of $function"));
            $schema += $default === null ? [] : ['default' => $default];
        }
        return [$schema, $declared->kind()];
    }
}
