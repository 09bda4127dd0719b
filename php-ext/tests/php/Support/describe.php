<?php

declare(strict_types=1);

/*
 * Prints the classes of the namespace Pillion as JSON, without private members: the classes of the
 * extension, or those in the folder that is given as an argument.
 */

if (isset($argv[1])) {
    // A file whose parent class comes later needs the autoloader.
    require "$argv[1]/../autoload.php";
    foreach (new RecursiveIteratorIterator(new RecursiveDirectoryIterator($argv[1])) as $entry) {
        if ($entry->getExtension() === 'php') {
            require_once $entry->getPathname();
        }
    }
}

/** @return list<array<string, mixed>> */
function describe_parameters(ReflectionMethod $method): array
{
    return array_map(fn (ReflectionParameter $parameter) => [
        'name' => $parameter->getName(),
        'type' => (string) $parameter->getType(),
        'attributes' => array_map(fn (ReflectionAttribute $attribute) => $attribute->getName(), $parameter->getAttributes()),
        'default' => $parameter->isOptional() ? var_export($parameter->getDefaultValue(), true) : null,
    ], $method->getParameters());
}

$classes = array_filter(
    [...get_declared_interfaces(), ...get_declared_classes()],
    fn (string $class) => str_starts_with($class, 'Pillion\\'),
);
sort($classes);
$described = [];
foreach ($classes as $class) {
    $reflection = new ReflectionClass($class);
    $ours = fn ($member) => $member->getDeclaringClass()->getName() === $class && !$member->isPrivate();
    $constructor = $reflection->getConstructor();
    $methods = [];
    foreach (array_filter($reflection->getMethods(), $ours) as $method) {
        $methods[$method->getName()] = [
            'modifiers' => implode(' ', Reflection::getModifierNames($method->getModifiers())),
            'parameters' => describe_parameters($method),
            'returns' => (string) $method->getReturnType(),
        ];
    }
    $properties = [];
    foreach (array_filter($reflection->getProperties(), $ours) as $property) {
        $properties[$property->getName()] = [
            'modifiers' => implode(' ', Reflection::getModifierNames($property->getModifiers())),
            'type' => (string) $property->getType(),
            'default' => $property->hasDefaultValue() ? var_export($property->getDefaultValue(), true) : null,
        ];
    }
    $interfaces = $reflection->getInterfaceNames();
    sort($interfaces);
    // Only code inside the class passes these arguments.
    if ($constructor?->isPrivate()) {
        $methods['__construct'] = ['modifiers' => 'private'];
    }
    ksort($methods);
    $described[$class] = [
        'kind' => $reflection->isInterface() ? 'interface' : 'class',
        'modifiers' => implode(' ', Reflection::getModifierNames($reflection->getModifiers())),
        'parent' => ($reflection->getParentClass() ?: null)?->getName(),
        'interfaces' => $interfaces,
        'constants' => array_filter(
            $reflection->getConstants(),
            fn (string $name) => $reflection->getReflectionConstant($name)->isPublic(),
            ARRAY_FILTER_USE_KEY,
        ),
        'properties' => $properties,
        'methods' => $methods,
    ];
}
echo json_encode($described, JSON_PRETTY_PRINT | JSON_UNESCAPED_SLASHES);
