<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use Pillion\ToolResult;
use PHPUnit\Framework\TestCase;

/** Argument checks and their messages (A5, C3). */
final class SchemaTest extends TestCase
{
    private static function check(array $schema, array|string $arguments): ToolResult
    {
        $registry = new ToolRegistry();
        $registry->register(new ToolDefinition('t', 'd', $schema), fn (array $arguments) => $arguments);
        return (new ToolExecutor($registry))->execute(new ToolCall('1', 't', $arguments));
    }

    /** @dataProvider violations */
    public function testC3TheFirstViolationIsNamed(array $schema, mixed $value, string $error): void
    {
        $schema = ['type' => 'object', 'properties' => ['a' => $schema], 'required' => []];
        $result = self::check($schema, ['a' => $value]);
        self::assertSame([$error, 'invalid_input'], [$result->error, $result->errorCode]);
    }

    public static function violations(): iterable
    {
        $invalid = fn (array $schema, mixed $value, string $reason) => [$schema, $value, "Invalid value for a: $reason"];
        yield 'type' => [['type' => 'integer'], true, 'Invalid type for a: expected integer'];
        yield 'types' => [['type' => ['string', 'null', 'integer']], [], 'Invalid type for a: expected null or integer or string'];
        yield 'type before values' => [['enum' => ['x'], 'type' => 'string'], 5, 'Invalid type for a: expected string'];
        $inner = ['properties' => ['b' => ['type' => 'array', 'items' => ['type' => 'number']]], 'required' => ['b', 'c']];
        yield 'a missing key' => [$inner, ['b' => [1, 'x']], 'Missing required parameter: a.c'];
        yield 'an element' => [$inner, ['c' => 1, 'b' => [1, 'x']], 'Invalid type for a.b[1]: expected number'];
        $odd = ["it's", '"x"', "a\nb", "\x7f", null, true, 1.5, [1, 2], ['k' => 'v']];
        yield 'values as Python has them' => $invalid(['enum' => $odd], 'zz', "must be one of [\"it's\", '\"x\"', 'a\\nb', '\\x7f', None, True, 1.5, [1, 2], {'k': 'v'}]");
        yield 'const' => $invalid(['const' => 'q'], 1, "must be one of ['q']");
        yield 'minimum' => $invalid(['minimum' => 1.5], 1, 'the value is less than the minimum of 1.5');
        yield 'maximum' => $invalid(['exclusiveMaximum' => 5], 5, 'the value is greater than or equal to the maximum of 5');
        yield 'length in characters' => $invalid(['minLength' => 2], 'é', 'the value is shorter than 2 characters');
        yield 'one character' => $invalid(['maxLength' => 1], 'éé', 'the value is longer than 1 character');
        yield 'pattern' => $invalid(['pattern' => '^\d+$'], "12\n", 'the value does not match "^\d+$"');
        yield 'items' => $invalid(['minItems' => 3], [1], 'the value has less than 3 items');
        yield 'properties' => $invalid(['maxProperties' => 1], ['x' => 1, 'y' => 2], 'the value has more than 1 property');
        yield 'unique' => $invalid(['uniqueItems' => true], [1, 1.0], 'the value has non-unique elements');
        yield 'nothing at all' => $invalid(['additionalProperties' => false], ['b' => 1], 'False schema does not allow the value');
        yield 'additional' => $invalid(['properties' => ['x' => ['type' => 'string']], 'additionalProperties' => false], ['b' => 1, 'c' => 2], "Additional properties are not allowed ('b', 'c' were unexpected)");
        yield 'additional schema' => [['additionalProperties' => ['type' => 'string']], ['b' => 1], 'Invalid type for a.b: expected string'];
        yield 'pattern of names' => [['patternProperties' => ['^x' => ['type' => 'string']]], ['xb' => 1], 'Invalid type for a.xb: expected string'];
        yield 'names' => $invalid(['propertyNames' => ['pattern' => '^x']], ['b' => 1], '"b" does not match "^x"');
        yield 'dependent' => [['dependentRequired' => ['x' => ['y']]], ['x' => 1], 'Missing required parameter: a.y'];
        yield 'anyOf' => $invalid(['anyOf' => [['type' => 'string'], ['type' => 'null']]], 1, "the value is not valid under any of the schemas listed in the 'anyOf' keyword");
        $both = ['oneOf' => [['type' => 'number'], ['type' => 'integer']]];
        yield 'oneOf, both' => $invalid($both, 1, "the value is valid under more than one of the schemas listed in the 'oneOf' keyword");
        yield 'oneOf, none' => $invalid($both, 'x', "the value is not valid under any of the schemas listed in the 'oneOf' keyword");
        yield 'allOf' => $invalid(['allOf' => [['type' => 'number'], ['minimum' => 3]]], 1, 'the value is less than the minimum of 3');
        yield 'if' => $invalid(['if' => ['type' => 'string'], 'then' => ['minLength' => 3]], 'zz', 'the value is shorter than 3 characters');
        yield 'not' => $invalid(['not' => ['type' => 'string', 'pattern' => 'a']], 'a', '{"type":"string","pattern":"a"} is not allowed for the value');
        yield 'not, inside' => $invalid(['not' => ['properties' => ['x' => ['type' => 'string']]]], 1, '{"properties":{"x":{"type":"string"}}} is not allowed for the value');
        yield 'contains' => $invalid(['contains' => ['type' => 'string']], [1], 'None of the value are valid under the given schema');
        yield 'a tuple' => [['prefixItems' => [['type' => 'string']]], [1], 'Invalid type for a[0]: expected string'];
        yield 'beyond a tuple' => [['prefixItems' => [['type' => 'string']], 'items' => false], [1, 2], 'Invalid value for a[1]: False schema does not allow the value'];
        yield 'a tree' => [['$ref' => '#/properties/a/properties/self', 'properties' => ['self' => ['type' => 'integer']]], 'x', 'Invalid type for a: expected integer'];
    }

    public function testC3ParametersAreCheckedInOrder(): void
    {
        $schema = ['type' => 'object', 'properties' => ['a' => ['type' => 'string'], 'b' => ['type' => 'integer']], 'required' => ['b', 'a']];
        self::assertSame('Missing required parameter: a', self::check($schema, ['b' => 'x'])->error);
        self::assertSame('Invalid type for b: expected integer', self::check($schema, ['a' => 'x', 'b' => 'x'])->error);
        $closed = ['type' => 'object', 'properties' => ['a' => ['type' => 'string']], 'additionalProperties' => false];
        self::assertSame(
            "Invalid value for arguments: Additional properties are not allowed ('b' was unexpected)",
            self::check($closed, ['b' => 1])->error,
        );
    }

    public function testC3ValidArgumentsPassAndDefaultsAreFilledIn(): void
    {
        $properties = [
            'a' => ['type' => 'integer', 'default' => 5],
            'b' => ['default' => null],
            'c' => ['default' => 0],
            'd' => ['type' => 'number', 'multipleOf' => 0.1],
        ];
        $schema = ['type' => 'object', 'properties' => $properties];
        self::assertSame(['d' => 0.3, 'a' => 5, 'c' => 0], self::check($schema, ['d' => 0.3])->result);
        self::assertSame(['a' => 7.0, 'c' => 1], self::check($schema, ['a' => 7.0, 'c' => 1])->result);
    }

    /** @dataProvider noSchemas */
    public function testAnInvalidSchemaIsRejected(array $property, string $place): void
    {
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage("Tool 't': Invalid JSON Schema at '$place");
        self::check(['type' => 'object', 'properties' => ['a' => $property]], []);
    }

    public static function noSchemas(): iterable
    {
        yield 'an unknown type' => [['type' => 'money'], '/properties/a/type'];
        yield 'values that are no list' => [['enum' => 'x'], '/properties/a/enum'];
        yield 'properties that are a list' => [['properties' => ['x']], '/properties/a/properties'];
        yield 'a broken pattern' => [['type' => 'string', 'pattern' => '('], "/properties/a/pattern': \"(\" is not a \"regex\""];
        yield 'a negative length' => [['minLength' => -1], '/properties/a/minLength'];
        yield 'another document' => [['$ref' => 'http://x.example/y'], ''];
        yield 'a reference to nowhere' => [['$ref' => '#/nope'], ''];
    }

    /** @dataProvider emptyArrays */
    public function testE11AnEmptyArrayIsAMapWhereOnlyAMapIsValid(array $property, mixed $value, string $json): void
    {
        $definitions = ['map' => ['type' => 'object'], 'list' => ['type' => 'array']];
        $registry = new ToolRegistry();
        $schema = ['type' => 'object', 'properties' => ['a' => $property], '$defs' => $definitions];
        // The metadata of arguments that need approval contains them unchanged.
        $registry->register(new ToolDefinition('t', 'd', $schema, requiresConfirmation: true), fn (array $arguments) => $arguments);
        $asked = (new ToolExecutor($registry))->execute(new ToolCall('1', 't', $value === null ? [] : ['a' => $value]));
        self::assertSame($json, json_encode($asked->metadata['arguments']['a'] ?? $asked->error));
    }

    public static function emptyArrays(): iterable
    {
        $map = ['type' => 'object'];
        $list = ['type' => 'array'];
        yield 'a map' => [$map, [], '{}'];
        yield 'a map or null' => [['type' => ['object', 'null']], [], '{}'];
        yield 'one of several' => [['anyOf' => [['type' => 'string'], $map]], [], '{}'];
        yield 'by reference' => [['$ref' => '#/$defs/map'], [], '{}'];
        yield 'all of' => [['allOf' => [['type' => ['array', 'object']], $map]], [], '{}'];
        yield 'inside a map' => [['type' => 'object', 'properties' => ['b' => $map]], ['b' => []], '{"b":{}}'];
        yield 'inside a list' => [['items' => ['type' => 'object', 'additionalProperties' => $map]], [[], ['x' => []]], '[{},{"x":{}}]'];
        yield 'a default' => [['type' => ['object', 'null'], 'default' => []], null, '{}'];
        yield 'a default inside' => [['type' => 'object', 'properties' => ['b' => $map], 'default' => ['b' => []]], null, '{"b":{}}'];
        yield 'a list' => [$list, [], '[]'];
        yield 'a list by reference' => [['$ref' => '#/$defs/list'], [], '[]'];
        yield 'either' => [['type' => ['array', 'object']], [], '[]'];
        yield 'anything' => [['description' => 'x'], [], '[]'];
        yield 'a list as default' => [['type' => ['array', 'object'], 'default' => []], null, '[]'];
        yield 'neither' => [['type' => 'string'], [], '"Invalid type for a: expected string"'];
        $kind = fn (string $kind, array $value) => ['type' => 'object', 'properties' => ['k' => ['const' => $kind], 'v' => $value]];
        yield 'by its word' => [['items' => ['oneOf' => [$kind('m', $map), $kind('l', $list)]]], [['k' => 'm', 'v' => []], ['k' => 'l', 'v' => []]], '[{"k":"m","v":{}},{"k":"l","v":[]}]'];
    }

    public function testAHostileSchemaIsBounded(): void
    {
        $definitions = [];
        for ($nth = 0; $nth < 40; $nth++) {
            $next = ['$ref' => '#/$defs/d' . ($nth + 1)];
            $definitions["d$nth"] = ['anyOf' => [$next, $next]];
        }
        $definitions['d40'] = ['type' => 'string'];
        $hard = ['type' => 'object', 'properties' => ['a' => ['$ref' => '#/$defs/d0']], '$defs' => $definitions];
        self::assertSame('Invalid value for arguments: checking the value against its schema takes too long', self::check($hard, ['a' => 5])->error);
        $endless = ['type' => 'object', 'properties' => ['a' => ['pattern' => '^(a+)+$']]];
        self::assertSame('invalid_input', self::check($endless, ['a' => str_repeat('a', 200) . '!'])->errorCode);
    }

    public function testA6ArgumentsThatAreNotAMapAreRejected(): void
    {
        $schema = ['type' => 'object', 'properties' => []];
        foreach (['[1]', '5', [1, 2]] as $arguments) {
            self::assertSame('The arguments must be a JSON object', self::check($schema, $arguments)->error);
        }
        foreach (['', ' ', 'null', '{}', []] as $nothing) {
            self::assertSame([], self::check($schema, $nothing)->result);
        }
        self::assertStringStartsWith('Invalid JSON in arguments: ', self::check($schema, '{"a"')->error);
    }
}
