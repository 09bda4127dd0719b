<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\Exception\InvalidInputException;
use Pillion\ProviderFormat;
use Pillion\Tests\Support\Expect;
use Pillion\ToolDefinition;
use Pillion\ToolRegistry;
use PHPUnit\Framework\TestCase;

final class ToolDefinitionTest extends TestCase
{
    private const SCHEMA = [
        'type' => 'object',
        'properties' => ['param1' => ['type' => 'string', 'description' => 'Parameter description']],
        'required' => ['param1'],
    ];

    public function testJ1NamedArgumentsAndProperties(): void
    {
        $definition = new ToolDefinition(
            strict: true,
            parameters: self::SCHEMA,
            description: 'What it does',
            name: 'get-x_2',
        );
        self::assertSame('get-x_2', $definition->name);
        self::assertSame('What it does', $definition->description);
        self::assertSame(self::SCHEMA, $definition->parameters);
        self::assertTrue($definition->strict);
        self::assertSame('general', $definition->category);
        self::assertFalse($definition->requiresConfirmation);
        self::assertSame(0.0, $definition->cooldownSeconds);
    }

    public function testJ1ALaterOptionalArgumentMayBeNamedAlone(): void
    {
        $definition = new ToolDefinition('t', 'd', cooldownSeconds: 3);
        self::assertSame(3.0, $definition->cooldownSeconds);
        self::assertFalse($definition->strict);
    }

    public function testJ1PropertiesAreReadonly(): void
    {
        $definition = new ToolDefinition('t', 'd');
        Expect::exception(\Error::class, fn () => $definition->name = 'other', 'Cannot modify readonly property Pillion\ToolDefinition::$name');
    }

    public function testJ1AnObjectIsConstructedOnce(): void
    {
        $definition = new ToolDefinition('t', 'd');
        Expect::exception(\Error::class, fn () => $definition->__construct('u', 'd'), 'readonly');
    }

    public function testA2BothParameterForms(): void
    {
        $list = new ToolDefinition('t', 'd', [
            ['name' => 'location', 'type' => 'STRING', 'description' => 'Where'],
            ['name' => 'units', 'type' => 'string', 'required' => false, 'default' => 'celsius', 'enum' => ['celsius', 'fahrenheit']],
            ['name' => 'days', 'type' => 'integer', 'default' => 0, 'required' => false],
        ]);
        self::assertSame([
            'type' => 'object',
            'properties' => [
                'location' => ['type' => 'string', 'description' => 'Where'],
                'units' => ['type' => 'string', 'enum' => ['celsius', 'fahrenheit'], 'default' => 'celsius'],
                'days' => ['type' => 'integer', 'default' => 0],
            ],
            'required' => ['location'],
        ], $list->parameters);
        self::assertSame(['type' => 'object', 'properties' => [], 'required' => []], (new ToolDefinition('t', 'd'))->parameters);
    }

    /** @dataProvider badDefinitions */
    public function testA4BadDefinitionsAreRefused(string $name, string $description, array $parameters, string $message): void
    {
        $e = Expect::exception(InvalidInputException::class, fn () => new ToolDefinition($name, $description, $parameters));
        self::assertStringContainsString($message, $e->getMessage());
        self::assertSame('invalid_input', $e->errorCode);
        self::assertSame(__FILE__, $e->getFile());
    }

    public static function badDefinitions(): iterable
    {
        $twice = [['name' => 'a', 'type' => 'string'], ['name' => 'a', 'type' => 'string']];
        yield 'a digit first' => ['9x', 'd', [], "Invalid tool name '9x'"];
        yield 'a blank' => ['a b', 'd', [], 'Invalid tool name'];
        yield 'a name that is too long' => [str_repeat('a', 129), 'd', [], "Invalid tool name '" . str_repeat('a', 64) . "...': use no more than 128 characters"];
        yield 'no name' => ['', 'd', [], 'Invalid tool name'];
        yield 'no description' => ['t', ' ', [], 'needs a description'];
        yield 'two of one name' => ['X', 'd', $twice, 'X: Duplicate parameter names found'];
        yield 'an unknown type' => ['t', 'd', [['name' => 'a', 'type' => 'money']], "Unknown parameter type 'money'"];
        yield 'no object schema' => ['t', 'd', ['type' => 'string'], 'JSON Schema of type object'];
    }

    public function testH1Formats(): void
    {
        $definition = new ToolDefinition(name: 't', description: 'd', parameters: self::SCHEMA);
        $parameters = self::SCHEMA;
        self::assertSame(
            ['type' => 'function', 'function' => ['name' => 't', 'description' => 'd', 'parameters' => $parameters, 'strict' => false]],
            $definition->toOpenAiFormat(),
        );
        self::assertSame(
            ['type' => 'function', 'name' => 't', 'description' => 'd', 'parameters' => $parameters, 'strict' => false],
            $definition->toOpenAiResponsesFormat(),
        );
        self::assertEquals(['name' => 't', 'description' => 'd', 'parameters' => $parameters], $definition->toGoogleFormat());
        self::assertSame(['name' => 't', 'description' => 'd', 'input_schema' => $parameters], $definition->toAnthropicFormat());
        self::assertSame(['name' => 't', 'description' => 'd', 'parameters' => $parameters, 'strict' => false], $definition->toArray());
    }

    public function testE11AnEmptyMapOfAFormatStaysAMapInJson(): void
    {
        $definition = new ToolDefinition('t', 'd', ['type' => 'object', 'properties' => []]);
        self::assertStringContainsString('"properties":{}', json_encode($definition->toOpenAiFormat()));
        self::assertStringContainsString('"properties":{}', json_encode($definition->toAnthropicFormat()));
    }

    public function testE11AnEmptyMapOfASchemaIsAMapAtEveryDepth(): void
    {
        $empty = ['type' => 'object', 'properties' => []];
        $schema = ['type' => 'object', 'properties' => [
            'payload' => $empty,
            'rows' => ['type' => 'array', 'items' => $empty + ['additionalProperties' => []]],
            'either' => ['anyOf' => [$empty, ['type' => 'null']]],
            'data' => ['type' => 'array', 'default' => [], 'enum' => [[], [1]]],
            'number' => ['type' => 'integer', 'nullable' => true],
        ], '$defs' => [], 'patternProperties' => [], 'required' => ['number']];
        $definition = new ToolDefinition('t', 'd', $schema);
        foreach ([$definition->toOpenAiFormat()['function']['parameters'], $definition->toAnthropicFormat()['input_schema']] as $format) {
            $format = json_encode($format);
            self::assertDoesNotMatchRegularExpression('/"(properties|additionalProperties|patternProperties|\$defs)":\[\]/', $format);
            self::assertStringContainsString('"default":[],"enum":[[],[1]]', $format);
            self::assertStringContainsString('["integer","null"]', $format);
        }
        $registry = new ToolRegistry();
        $registry->register($definition, fn (array $arguments) => $arguments);
        $result = $registry->execute('t', ['payload' => ['a' => 1], 'number' => null], 'c');
        self::assertSame(['payload' => ['a' => 1], 'number' => null, 'data' => []], $result->result, (string) $result->error);
    }

    public function testH1AStrictSchemaHasTheFormOfOpenAi(): void
    {
        $node = ['type' => 'object', 'properties' => ['next' => ['$ref' => '#/$defs/node']]];
        $schema = ['type' => 'object', 'required' => ['q'], '$defs' => ['node' => $node], 'properties' => [
            'q' => ['type' => 'string', 'description' => 'What', 'examples' => ['x']],
            'unit' => ['type' => 'string', 'enum' => ['m', 'ft'], 'default' => 'm'],
            'list' => ['type' => 'array', 'items' => ['type' => 'object', 'properties' => ['x' => ['type' => 'integer']]]],
            'either' => ['anyOf' => [['type' => 'string'], ['type' => 'integer']]],
            'one' => ['type' => 'string', 'const' => 'x'],
            'node' => ['$ref' => '#/$defs/node', 'description' => 'The first'],
        ]];
        $null = ['type' => 'null'];
        $closed = fn (array $properties) => [
            'type' => 'object', 'properties' => $properties, 'required' => array_keys($properties), 'additionalProperties' => false,
        ];
        $reference = ['$ref' => '#/$defs/node'];
        $expected = $closed([
            'q' => ['type' => 'string', 'description' => 'What'],
            'unit' => ['type' => ['string', 'null'], 'enum' => ['m', 'ft', null]],
            'list' => ['type' => ['array', 'null'], 'items' => $closed(['x' => ['type' => ['integer', 'null']]])],
            'either' => ['anyOf' => [['type' => 'string'], ['type' => 'integer'], $null]],
            'one' => ['anyOf' => [['type' => 'string', 'const' => 'x'], $null]],
            'node' => ['description' => 'The first', 'anyOf' => [$reference, $null]],
        ]) + ['$defs' => ['node' => $closed(['next' => ['anyOf' => [$reference, $null]]])]];
        $strict = new ToolDefinition('t', 'd', $schema, strict: true);
        foreach ([$strict->toOpenAiFormat()['function'], $strict->toOpenAiResponsesFormat(), ProviderFormat::tools('openai', [$strict])[0]['function']] as $format) {
            self::assertTrue($format['strict']);
            self::assertEquals($expected, $format['parameters']);
        }
        self::assertSame($schema, $strict->parameters);
        self::assertSame($schema['properties'], $strict->toAnthropicFormat()['input_schema']['properties']);
        $lax = new ToolDefinition('t', 'd', $schema);
        self::assertSame([false, $schema['properties']], [$lax->toOpenAiFormat()['function']['strict'], $lax->toOpenAiFormat()['function']['parameters']['properties']]);
    }

    public function testAnArrayHasItemsForOpenAi(): void
    {
        $schema = ['type' => 'object', 'properties' => ['a' => ['type' => 'array']], 'required' => ['a']];
        $function = (new ToolDefinition('t', 'd', $schema, strict: true))->toOpenAiFormat()['function'];
        self::assertFalse($function['strict']);
        $array = $function['parameters']['properties']['a'];
        self::assertSame('{"type":"array","items":{}}', json_encode($array));
    }

    /** @dataProvider neverStrict */
    public function testH1OnlySchemasThatCanBeStrictAreMarkedStrict(array $property, array $more = []): void
    {
        $schema = $more + ['type' => 'object', 'properties' => ['a' => $property], 'required' => ['a']];
        $definition = new ToolDefinition('t', 'd', $schema, strict: true);
        self::assertFalse($definition->toOpenAiFormat()['function']['strict']);
        self::assertFalse($definition->toOpenAiResponsesFormat()['strict']);
        $format = ProviderFormat::tools('openai', [$definition])[0]['function'];
        self::assertArrayNotHasKey('strict', $format);
        self::assertSame($schema['properties'], $format['parameters']['properties']);
    }

    public static function neverStrict(): iterable
    {
        $text = ['type' => 'string'];
        yield 'anything' => [['description' => 'x']];
        yield 'a free map' => [['type' => 'object']];
        yield 'a map of something' => [['type' => 'object', 'additionalProperties' => $text]];
        yield 'a map with more' => [['type' => 'object', 'properties' => ['x' => $text], 'additionalProperties' => true]];
        yield 'patterns' => [['type' => 'object', 'properties' => ['x' => $text], 'patternProperties' => ['^y' => $text]]];
        yield 'a tuple' => [['type' => 'array', 'prefixItems' => [$text], 'items' => $text]];
        yield 'oneOf' => [['oneOf' => [$text, ['type' => 'null']]]];
        yield 'allOf' => [['allOf' => [$text]]];
        yield 'not' => [$text + ['not' => ['const' => 'x']]];
        yield 'a length' => [$text + ['minLength' => 1]];
        yield 'a format' => [$text + ['format' => 'uri']];
        yield 'values without a type' => [['enum' => ['x']]];
        yield 'a reference elsewhere' => [['$ref' => '#/properties/b'], ['properties' => ['a' => ['$ref' => '#/properties/b'], 'b' => $text]]];
        yield 'an open tool' => [$text, ['additionalProperties' => true]];
    }

    public function testH1NullForAnOptionalParameterCountsAsOmitted(): void
    {
        $inner = ['type' => 'object', 'properties' => ['x' => ['type' => 'string'], 'y' => ['type' => ['string', 'null']]]];
        $schema = ['type' => 'object', 'properties' => ['n' => ['type' => 'integer', 'default' => 5], 'note' => ['type' => 'string'], 'o' => $inner, 'to' => ['type' => 'string']], 'required' => ['to']];
        foreach ([true, false] as $strict) {
            $registry = new ToolRegistry();
            $registry->register(new ToolDefinition('t', 'd', $schema, strict: $strict), fn (array $arguments) => $arguments);
            $run = fn (?string $to) => $registry->execute('t', ['n' => null, 'note' => null, 'o' => ['x' => null, 'y' => null], 'to' => $to], 'c');
            self::assertSame(['o' => ['y' => null], 'to' => 'a', 'n' => 5], $run('a')->result);
            self::assertSame('Invalid type for to: expected string', $run(null)->error);
        }
    }

    public function testItCanBeQueued(): void
    {
        $definition = new ToolDefinition('t', 'd', self::SCHEMA, strict: true);
        self::assertEquals($definition, unserialize(serialize($definition)));
        self::assertEquals($definition, clone $definition);
    }
}
