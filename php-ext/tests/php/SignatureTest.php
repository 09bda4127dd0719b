<?php

declare(strict_types=1);

namespace Pillion\Tests;

use Pillion\AsTool;
use Pillion\Exception\InvalidInputException;
use Pillion\Exception\PillionException;
use Pillion\Parameter;
use Pillion\Tests\Support\Expect;
use Pillion\Tests\Support\Level;
use Pillion\Tests\Support\Pure;
use Pillion\Tests\Support\RollDice2;
use Pillion\Tests\Support\Tools;
use Pillion\Tests\Support\Unit;
use Pillion\ToolCall;
use Pillion\ToolDefinition;
use Pillion\ToolExecutor;
use Pillion\ToolRegistry;
use PHPUnit\Framework\TestCase;

/** A plain function. */
function plain(string $text = 'x'): string
{
    return strtoupper($text);
}

final class SignatureTest extends TestCase
{
    private const ANY = ['string', 'number', 'boolean', 'object', 'array', 'null'];

    public function testAnEmptyMapIsAMapAsADefault(): void
    {
        $registry = new ToolRegistry();
        $function = /** @param array<string, int> $x */ fn (array $x = []) => count($x);
        $registry->register(ToolDefinition::fromCallable($function, 'f', 'A test'), $function);
        $schema = json_encode($registry->getSchemas()[0]['function']['parameters']['properties']['x']);
        self::assertStringContainsString('"default":{}', (string) $schema);
        self::assertSame(0, (new ToolExecutor($registry))->execute(['id' => '1', 'name' => 'f'])->result);
    }

    public function testAMethodBecomesADefinition(): void
    {
        $definition = ToolDefinition::fromCallable([new Tools(), 'forecast']);
        self::assertSame(
            ['forecast', 'Forecasts the weather of a place.', 'weather', false, 2.0],
            [$definition->name, $definition->description, $definition->category, $definition->requiresConfirmation, $definition->cooldownSeconds],
        );
        self::assertSame([
            'type' => 'object',
            'properties' => [
                'place' => ['type' => 'string', 'description' => 'where it is, in any language'],
                'unit' => ['type' => 'string', 'enum' => ['celsius', 'fahrenheit'], 'description' => 'of the temperature', 'default' => 'celsius'],
                'days' => ['type' => 'array', 'items' => ['type' => 'integer'], 'default' => [1]],
                'level' => ['type' => ['integer', 'null'], 'enum' => [1, 2, null]],
                'certainty' => ['type' => 'number', 'description' => 'how sure', 'minimum' => 0, 'maximum' => 1, 'default' => 0.5],
                'options' => [
                    'type' => 'object',
                    'properties' => ['a' => ['type' => 'integer'], 'b c' => ['type' => ['boolean', 'null']]],
                    'required' => ['a'],
                    'default' => [],
                ],
            ],
            'required' => ['place'],
        ], $definition->parameters);
    }

    public function testRegisterObjectRegistersEveryMethodWithTheAttribute(): void
    {
        $registry = new ToolRegistry();
        $tools = new Tools('Hi');
        self::assertSame(['forecast', 'say_hello', 'add'], $registry->registerObject($tools));
        $executor = new ToolExecutor($registry, ['approve' => fn () => true]);
        $run = fn (string $name, array $arguments) => $executor->execute(new ToolCall('c', $name, $arguments), ['user' => uniqid()]);

        $result = $run('forecast', ['unit' => 'fahrenheit', 'place' => 'Oslo', 'level' => 2, 'unknown' => 1, 'options' => ['a' => 1]]);
        self::assertSame(['place' => 'Oslo', 'unit' => 'Fahrenheit', 'days' => [1], 'level' => 'High', 'certainty' => 0.5], $result->result, (string) $result->error);
        self::assertSame([['Oslo', Unit::Fahrenheit, [1], Level::High, 0.5, ['a' => 1]]], $tools->seen);
        self::assertSame('Hi Ada', $run('say_hello', ['name' => 'Ada'])->result);
        self::assertSame(5.5, $run('add', ['a' => 2, 'b' => 3.5])->result);
        self::assertSame(5, $registry->get('add')->execute(['a' => 2, 'b' => 3], 'c')->result);

        foreach ([['say_hello', ['name' => 'ada']], ['forecast', ['place' => 'x', 'unit' => 'kelvin']], ['add', ['a' => '1', 'b' => 1]]] as [$name, $arguments]) {
            self::assertSame('invalid_input', $run($name, $arguments)->errorCode);
        }
        $hello = $registry->get('say_hello')->getDefinition();
        self::assertTrue($hello->strict && $hello->requiresConfirmation);
        self::assertFalse($hello->parameters['additionalProperties']);
        self::assertSame(['type' => 'string', 'pattern' => '^[A-Z]', 'examples' => ['Ada']], $hello->parameters['properties']['name']);
    }

    public function testC3AWholeFloatIsAnIntegerAndAValueOfAnEnum(): void
    {
        $function = fn (Level $level, int $n = 3, ?int $m = null, int|float $f = 0, int|string $s = 0) => [$level->name, $n, $m, $f, $s];
        $registry = new ToolRegistry();
        $registry->register(ToolDefinition::fromCallable($function, 'f', 'Shows'), $function);
        $run = fn (string $arguments) => (new ToolExecutor($registry))->execute(new ToolCall('c', 'f', $arguments));
        self::assertSame(['High', 2, -3, 1.5, 4], $run('{"level":2.0,"n":2.0,"m":-3.0,"f":1.5,"s":4.0}')->result);
        foreach ([
            '{"level":1.5}' => 'Invalid type for level: expected integer',
            '{"level":7.0}' => 'Invalid value for level: must be one of',
            '{"level":2,"n":1.5}' => 'Invalid type for n: expected integer',
            '{"level":2,"n":1e30}' => 'Invalid value for n: the value is beyond 64 bits',
            '{"level":2,"n":9223372036854775808}' => 'Invalid value for n: the value is beyond 64 bits',
        ] as $arguments => $error) {
            $result = $run($arguments);
            self::assertStringStartsWith($error, (string) $result->error);
            self::assertSame('invalid_input', $result->errorCode);
        }
        // Without an executor, the arguments are not checked.
        $this->expectException(InvalidInputException::class);
        $this->expectExceptionMessage('Invalid type for n: expected integer');
        $registry->get('f')->execute(['level' => 2, 'n' => 1.5], 'c');
    }

    public function testE11AnEmptyArrayIsTheMapOfTheDocComment(): void
    {
        $tool = new class () {
            /**
             * Counts
             *
             * @param array<string, mixed> $map
             * @param array{inner: array<string, int>}|null $shape
             */
            public function execute(array $map, ?array $shape = null): array
            {
                return [$map, $shape];
            }
        };
        $definition = ToolDefinition::fromCallable($tool, 'count_up');
        $registry = new ToolRegistry();
        $registry->register($definition, [$tool, 'execute']);
        $result = $registry->execute('count_up', ['map' => [], 'shape' => ['inner' => []]], 'c');
        self::assertSame([[], ['inner' => []]], $result->result, (string) $result->error);
    }

    /** @dataProvider bytes */
    public function testTextThatIsNotUtf8IsRejectedClearly(string $code, mixed $callable): void
    {
        eval(str_replace('#', "\xfc", $code));
        Expect::exception(InvalidInputException::class, fn () => ToolDefinition::fromCallable($callable, 'name'), 'UTF-8');
    }

    public static function bytes(): iterable
    {
        yield 'a name' => ['', "\xfc"];
        yield 'a class' => ['', ["\xfc", 'x']];
        yield 'a doc comment' => ['/** Gr#ße */ function of_bytes_1() {}', 'of_bytes_1'];
        yield 'a parameter' => ['/** Does */ function of_bytes_2(int $x#) {}', 'of_bytes_2'];
        yield 'a default' => ['/** Does */ function of_bytes_3(string $x = "#") {}', 'of_bytes_3'];
    }

    public function testAClassIsInstantiatedWhenAMethodNeedsAnObject(): void
    {
        $registry = new ToolRegistry();
        self::assertSame(['roll_dice2'], $registry->registerObject(RollDice2::class));
        self::assertSame(20, $registry->execute('roll_dice2', ['sides' => 20], 'c')->result);
        self::assertSame(6, $registry->execute('roll_dice2', [], 'c')->result);
        self::assertSame(['Rolls dice.', 'games'], [$registry->get('roll_dice2')->getDefinition()->description, $registry->categories()[0]]);
    }

    public function testAllOrNothingIsRegistered(): void
    {
        $registry = new ToolRegistry();
        $registry->register(new ToolDefinition('add', 'Mine'), fn () => 'mine');
        $e = Expect::exception(InvalidInputException::class, fn () => $registry->registerObject(new Tools()));
        self::assertSame("Tool 'add' already registered", $e->getMessage());
        self::assertSame(['add'], array_keys($registry->getAll()));
        $registry->registerObject(new Tools(), replace: true);
        self::assertSame(['add', 'forecast', 'say_hello'], array_keys($registry->getAll()));
        self::assertSame(3, $registry->execute('add', ['a' => 1, 'b' => 2], 'c')->result);
    }

    public function testOneInvalidSchemaRegistersNothing(): void
    {
        $object = new class () {
            #[AsTool(description: 'Is fine')]
            public function first(): string
            {
                return 'theirs';
            }

            #[AsTool(description: 'Is not')]
            public function second(#[Parameter(pattern: '(')] string $x): string
            {
                return $x;
            }
        };
        $registry = new ToolRegistry();
        $registry->register(new ToolDefinition('first', 'Mine'), fn () => 'mine');
        Expect::exception(InvalidInputException::class, fn () => $registry->registerObject($object, replace: true), "'second'");
        self::assertSame(['first'], array_keys($registry->getAll()));
        self::assertSame('mine', $registry->execute('first', [], 'c')->result);
    }

    /** @dataProvider callables */
    public function testEveryKindOfCallable(mixed $callable, string $name, array $arguments, mixed $result): void
    {
        $definition = ToolDefinition::fromCallable($callable, description: 'A test');
        self::assertSame($name, $definition->name);
        if (is_callable($callable)) {
            $registry = new ToolRegistry();
            $registry->register($definition, $callable);
            self::assertSame($result, $registry->execute($name, $arguments, 'c')->result);
        }
    }

    public static function callables(): iterable
    {
        $object = new class () {
            public function execute(int $a): int
            {
                return $a;
            }
        };
        yield 'a function' => [__NAMESPACE__ . '\plain', 'plain', [], 'X'];
        yield 'a function of PHP' => ['str_repeat', 'str_repeat', ['string' => 'ab', 'times' => 2], 'abab'];
        yield 'a static method' => [Tools::class . '::add', 'add', ['a' => 1, 'b' => 2], 3];
        yield 'a static method in an array' => [[Tools::class, 'add'], 'add', ['a' => 1, 'b' => 2], 3];
        yield 'a first-class callable' => [(new Tools())->hello(...), 'say_hello', [], null];
        yield 'an invokable object' => [new RollDice2(), 'roll_dice2', ['sides' => 2], 2];
        yield 'a closure with a name' => [#[AsTool(name: 'mine')] fn (int $x = 3): int => $x, 'mine', [], 3];
        yield 'a class' => [RollDice2::class, 'roll_dice2', [], null];
        yield 'a method of a class' => [[Tools::class, 'hello'], 'say_hello', [], null];
    }

    /** @dataProvider types */
    public function testTypesBecomeSchemas(callable $function, array $schema): void
    {
        $definition = ToolDefinition::fromCallable($function, 'f', 'A test');
        $properties = $definition->parameters['properties'];
        unset($properties['x']['default'], $properties['x']['description']);
        self::assertSame($schema, $properties['x']);
    }

    public static function types(): iterable
    {
        yield 'nothing' => [fn ($x) => 1, ['type' => self::ANY]];
        yield 'mixed' => [fn (mixed $x) => 1, ['type' => self::ANY]];
        yield 'int|string|null' => [fn (int|string|null $x) => 1, ['type' => ['string', 'integer', 'null']]];
        yield 'bool' => [fn (bool $x = false) => 1, ['type' => 'boolean']];
        yield 'array' => [fn (array $x = []) => 1, ['type' => 'array']];
        yield '?float' => [fn (?float $x) => 1, ['type' => ['number', 'null']]];
        yield 'an enum of integers' => [fn (Level $x = Level::Low) => 1, ['type' => 'integer', 'enum' => [1, 2]]];
        yield 'a nullable enum' => [fn (?Unit $x) => 1, ['type' => ['string', 'null'], 'enum' => ['celsius', 'fahrenheit', null]]];
        foreach (self::docTypes() as $type => [$function, $schema]) {
            yield "@param $type" => [$function, $schema];
        }
    }

    private static function docTypes(): iterable
    {
        $list = fn (array $items) => ['type' => 'array', 'items' => $items];
        $types = [
            ['list<string>', 'array', $list(['type' => 'string'])],
            ['string[][]', 'array', $list($list(['type' => 'string']))],
            ['array<int, int|float>', 'array', $list(['type' => ['integer', 'number']])],
            ['array<string, int>', 'array', ['type' => 'object', 'additionalProperties' => ['type' => 'integer']]],
            ['array<string, mixed>', 'array', ['type' => 'object', 'additionalProperties' => ['type' => self::ANY]]],
            ['list<scalar>', 'array', $list(['type' => ['string', 'number', 'boolean']])],
            ['array{a: mixed}', 'array', ['type' => 'object', 'properties' => ['a' => ['type' => self::ANY]], 'required' => ['a']]],
            ['non-empty-list<positive-int>', 'array', ['type' => 'array', 'items' => ['type' => 'integer', 'minimum' => 1], 'minItems' => 1]],
            ['array{a: ?string, b?: list<array{c: int}>, ...}', 'array', [
                'type' => 'object',
                'properties' => [
                    'a' => ['type' => ['string', 'null']],
                    'b' => $list(['type' => 'object', 'properties' => ['c' => ['type' => 'integer']], 'required' => ['c']]),
                ],
                'required' => ['a'],
            ]],
            ["'asc' | 'desc'", 'string', ['type' => 'string', 'enum' => ['asc', 'desc']]],
            ['int<1, max>', 'int', ['type' => 'integer', 'minimum' => 1]],
            ['int<min, -5>', 'int', ['type' => 'integer', 'maximum' => -5]],
            ['1|2', 'int', ['type' => 'integer', 'enum' => [1, 2]]],
            ['non-empty-string', 'string', ['type' => 'string', 'minLength' => 1]],
            // Unknown doc types, and types that PHP does not accept, leave PHP's own type.
            ['Collection<Foo>', 'array', ['type' => 'array']],
            ['int', 'string', ['type' => 'string']],
            ['list<', 'array', ['type' => 'array']],
            [str_repeat('(', 5000) . 'int', 'array', ['type' => 'array']],
            [str_repeat('array<', 5000) . 'int', 'array', ['type' => 'array']],
            ['list<string>', '?array', ['type' => ['array', 'null'], 'items' => ['type' => 'string']]],
        ];
        foreach ($types as $place => [$doc, $php, $schema]) {
            $function = eval("return /** @param $doc \$x a test */ fn ($php \$x) => 1;");
            yield substr("$doc ($place)", 0, 60) => [$function, $schema];
        }
    }

    /** @dataProvider refused */
    public function testInvalidToolsAreRejectedWithAReason(mixed $callable, string $message): void
    {
        $e = Expect::exception(PillionException::class, fn () => ToolDefinition::fromCallable($callable));
        self::assertStringContainsString($message, $e->getMessage());
        self::assertSame('invalid_input', $e->errorCode);
    }

    public static function refused(): iterable
    {
        yield 'a closure without a name' => [fn () => 1, 'The closure has no name'];
        yield 'no description' => [#[AsTool('x')] fn () => 1, 'The closure has no description'];
        yield 'a bad name' => [#[AsTool('a b', 'x')] fn () => 1, 'a b'];
        yield 'variadic' => [#[AsTool('x', 'x')] fn (int ...$all) => 1, 'Parameter $all of The closure is variadic'];
        yield 'a reference' => [#[AsTool('x', 'x')] fn (int &$out) => 1, 'Parameter $out of The closure is passed by reference'];
        yield 'an object' => [#[AsTool('x', 'x')] fn (\DateTime $when) => 1, 'has the type DateTime'];
        yield 'a pure enum' => [#[AsTool('x', 'x')] fn (Pure $p) => 1, 'has the type ' . Pure::class];
        yield 'a callable' => [#[AsTool('x', 'x')] fn (callable $c) => 1, 'has the type callable'];
        yield 'an intersection' => [#[AsTool('x', 'x')] fn (\Countable&\Traversable $c) => 1, 'has the type Countable&Traversable'];
        yield 'a missing class' => [#[AsTool('x', 'x')] fn (\Nope\Missing $c) => 1, 'has the type Nope\Missing'];
        yield 'no function' => ['no_such_thing', "There is neither a function nor a class 'no_such_thing'"];
        yield 'no class' => ['Nope::x', "There is no class 'Nope'"];
        yield 'no method' => [[Tools::class, 'nope'], 'There is no method ' . Tools::class . '::nope()'];
        yield 'a private method' => [[new class () {
            private function hidden(): void
            {
            }
        }, 'hidden'], 'is not public'];
        yield 'no array of two' => [[1, 2, 3], 'must be a callable, a class or [class, method], array given'];
        yield 'an object without a method' => [new \stdClass(), 'stdClass has neither __invoke() nor execute()'];
    }

    public function testRegisterObjectReportsErrors(): void
    {
        $wrong = [
            [new \stdClass(), 'Neither stdClass nor its methods have #[Pillion\AsTool]'],
            ['Nope', "There is no class 'Nope'"],
            [new class () {
                #[AsTool]
                protected function hidden(): void
                {
                }
            }, 'is not public'],
            [NeedsArguments::class, 'cannot be created without constructor arguments: pass an object of the class'],
            [new #[AsTool] class () {
            }, 'has #[Pillion\AsTool] but neither __invoke() nor execute()'],
        ];
        foreach ($wrong as [$given, $message]) {
            $e = Expect::exception(InvalidInputException::class, fn () => (new ToolRegistry())->registerObject($given), failure: $message);
            self::assertStringContainsString($message, $e->getMessage());
        }
    }

    public function testABoundDefinitionCanBeSerialized(): void
    {
        $definition = unserialize(serialize(ToolDefinition::fromCallable([Tools::class, 'add'])));
        $registry = new ToolRegistry();
        $registry->register($definition, [Tools::class, 'add']);
        self::assertSame(3, $registry->execute('add', ['a' => 1, 'b' => 2], 'c')->result);
    }

    public function testTheAttributesAreThoseOfPHP(): void
    {
        $attribute = (new \ReflectionMethod(Tools::class, 'forecast'))->getAttributes()[0]->newInstance();
        self::assertInstanceOf(AsTool::class, $attribute);
        self::assertSame([null, 'weather', 2.0], [$attribute->name, $attribute->category, $attribute->cooldownSeconds]);
        $targets = (new \ReflectionClass(AsTool::class))->getAttributes(\Attribute::class)[0]->newInstance()->flags;
        self::assertSame(\Attribute::TARGET_CLASS | \Attribute::TARGET_FUNCTION | \Attribute::TARGET_METHOD, $targets);
    }

    public function testAWrongArgumentOfAnAttributeIsATypeError(): void
    {
        Expect::exception(\TypeError::class, fn () => new \Pillion\Parameter(minimum: 'low'));
    }
}

final class NeedsArguments
{
    public function __construct(public int $x)
    {
    }

    #[AsTool(description: 'x')]
    public function run(): int
    {
        return $this->x;
    }
}
